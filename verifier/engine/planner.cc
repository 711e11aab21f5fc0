#include "verifier/engine/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "verifier/propose/point_draft.h"

namespace outrider {
namespace {

// REQUIRES: `kind` proposes without a model.
LocalSource SourceOf(Proposer::Kind kind) {
  return kind == Proposer::Kind::kPromptLookup ? LocalSource::kLookup : LocalSource::kSuffix;
}

// A match at least this long counts as another proposer, because its tokens are much more likely to
// be accepted. Prompt lookup does not search for longer ones.
int StrongMatch(Proposer::Kind kind, const LocalProposerOptions& options) {
  constexpr int kSuffixMatchTokens = 6;
  return kind == Proposer::Kind::kPromptLookup ? options.lookup.max_n : kSuffixMatchTokens;
}

constexpr char kStrong[] = "strong";
// In these steps the cost of rows is unknown, unless passes were timed at start.
constexpr int64_t kFirstSteps = 8;
// A proposal takes no time.
constexpr StreamEstimate kAtOnce{.round_trip = 1e-7, .draft_depth = 1e-7};

void AddLocalArms(Proposer::Kind kind, const std::string& name, std::span<const int> lengths,
                  int max_length, std::vector<Arm>* arms) {
  for (const bool strong : {false, true}) {
    for (const int length : lengths) {
      if (length > max_length) continue;
      arms->push_back({.name = name + (strong ? "-strong-" : "-") + std::to_string(length),
                       .proposer = {.kind = kind, .name = strong ? kStrong : ""},
                       .shape = Sequences(1, length)});
    }
  }
}

}  // namespace

std::vector<Arm> ServedArms(const PlannerOptions& options) {
  std::vector<Arm> arms = {{.name = "plain"}};
  const int longest = std::min(options.max_draft_length, options.max_draft_tokens);
  const auto add = [&](int paths, std::initializer_list<int> lengths) {
    for (const int length : lengths) {
      if (paths > options.max_paths || length > longest) continue;
      if (paths * length > options.max_draft_tokens) continue;
      arms.push_back({.name = "draft-" + std::to_string(paths) + "x" + std::to_string(length),
                      .proposer = {.kind = Proposer::Kind::kModel},
                      .shape = Sequences(paths, length),
                      .rule = paths > 1 ? Rule::kMultiPathBlock : Rule::kBlock});
    }
  };
  add(1, {1, 2, 3, 4, 5, 6, 8});
  add(2, {2, 4, 6});
  add(4, {2, 4, 6});
  // A head seldom lets a draft grow beyond about 8 tokens, and a plan's rows are reserved. The
  // other stop rules gain less than their drafts lose, which never come early.
  const int by_head = std::min(8, longest);
  arms.push_back({.name = "draft-head-" + std::to_string(by_head),
                  .proposer = {.kind = Proposer::Kind::kModel},
                  .shape = Sequences(1, by_head),
                  .stop = StopRule::Kind::kHead});
  constexpr int kLookupLengths[] = {4, 8};
  constexpr int kSuffixLengths[] = {4, 8, 16};
  if (options.local.lookup.max_tokens > 0) {
    AddLocalArms(Proposer::Kind::kPromptLookup, "lookup", kLookupLengths, longest, &arms);
  }
  if (options.local.suffix_max_tokens > 0) {
    AddLocalArms(Proposer::Kind::kSuffixAutomaton, "suffix", kSuffixLengths, longest, &arms);
  }
  return arms;
}

SessionPlanner::SessionPlanner(Planner* planner, const GenerationRequest& request,
                               const ResolvedSpeculation& plan)
    : planner_(planner),
      kind_(plan.kind),
      rule_(request.speculation.rule),
      stop_(plan.stop),
      client_(request.client),
      control_(planner->controller_->Open(Pair(), client_)),
      local_(planner->options_.local, planner->store_.on() ? &planner->store_ : nullptr,
             request.client) {
  const ArmSet& arms = planner->arms();
  if (plan.rule == Rule::kGumbel) rule_ = plan.rule;
  for (int arm = 0; arm < arms.size(); ++arm) {
    const bool many = arms.facts(arm).sequences > 1;
    if (many && rule_.has_value() && !TakesManyPaths(*rule_)) continue;
    // A stop rule from the request or the server applies to all arms.
    const bool open = !request.speculation.stop.has_value() && stop_ == StopRule{};
    if (!open && arms.arm(arm).stop != StopRule::Kind::kLength) continue;
    possible_ |= ArmSet::Bit(arm);
  }
  rounds_.resize(static_cast<size_t>(arms.size()));
}

void SessionPlanner::Read(std::span<const TokenId> tokens) {
  local_.Observe(tokens);
  read_ += tokens.size();
}

ArmMask SessionPlanner::LocalArms(Proposer::Kind kind, int room,
                                  std::span<StreamEstimate, kMaxArms> streams) {
  const ArmSet& arms = planner_->arms();
  const LocalProposal& proposal = local_.Propose(SourceOf(kind), std::min(room, arms.max_length()));
  const auto length = static_cast<int>(proposal.tokens.size());
  if (length == 0) return 0;
  const bool strong = proposal.match_length >= StrongMatch(kind, planner_->options_.local);
  ArmMask mask = 0;
  int shortest = -1;
  for (int arm = 0; arm < arms.size(); ++arm) {
    const Proposer& proposer = arms.arm(arm).proposer;
    if (proposer.kind != kind || (proposer.name == kStrong) != strong) continue;
    if (shortest < 0) shortest = arm;
    streams[static_cast<size_t>(arms.facts(arm).proposer)].longest = length;
    // Arms longer than the proposal would be equal to this one.
    if (arm == shortest || arms.facts(arm).length <= length) mask |= ArmSet::Bit(arm);
  }
  return mask;
}

ArmMask SessionPlanner::Allowed(const Situation& situation, size_t tokens,
                                std::span<StreamEstimate, kMaxArms> streams) {
  const ArmSet& arms = planner_->arms();
  const int longest = situation.longest();
  ArmMask allowed = 0;
  for (int arm = 0; arm < arms.size(); ++arm) {
    const ArmSet::Facts& facts = arms.facts(arm);
    const Proposer::Kind kind = arms.arm(arm).proposer.kind;
    StreamEstimate& stream = streams[static_cast<size_t>(facts.proposer)];
    stream = kAtOnce;
    if (kind == Proposer::Kind::kNone) allowed |= ArmSet::Bit(arm);
    if (kind != Proposer::Kind::kModel || !situation.drafter.has_value()) continue;
    // Cost of a catch-up token in depths: many are read in one pass.
    constexpr double kCatchUp = 1.0 / 8;
    stream = {.round_trip = situation.drafter->network,
              .draft_depth = situation.drafter->depth,
              .catch_up_token = kCatchUp * situation.drafter->depth,
              .early = has_fixed_length() ? situation.drafter->early : 0};
    const bool by_head = arms.arm(arm).stop == StopRule::Kind::kHead;
    if (by_head && !situation.drafter->acceptance_head) continue;
    if (facts.rows - 1 <= situation.room && facts.length <= longest) allowed |= ArmSet::Bit(arm);
  }
  if (read_ == tokens && longest > 0) {
    allowed |= LocalArms(Proposer::Kind::kPromptLookup, longest, streams) |
               LocalArms(Proposer::Kind::kSuffixAutomaton, longest, streams);
  }
  return allowed & possible_;
}

std::string SessionPlanner::Pair() const {
  return std::to_string(static_cast<int>(kind_)) + " " + model_;
}

void SessionPlanner::Follow(std::string_view model) {
  if (model.empty() || model == model_) return;
  model_ = model;
  switches_.earlier += control_->switches();
  control_ = planner_->controller_->Open(Pair(), client_);
  plain_.among = 0;
}

std::optional<int> SessionPlanner::Probe(const Context& context, bool trial) {
  // While nobody asks a drafter, nothing shows that it or its network has become faster. The first
  // of these rounds reads the text, the others measure.
  constexpr size_t kProbes = 3;
  // Share of all sessions' time that probes may cost, each of which delays one of them. They come
  // at least this often, in seconds of steps; three slow rounds are a small part of them.
  constexpr double kShare = 0.01;
  constexpr double kAgain = 20;
  if (!planner_->learns_ || planner_->steps_ < kFirstSteps) return std::nullopt;
  const ArmSet& arms = planner_->arms();
  // Of growing length: a plan that repeats the one before could come early, and measure nothing,
  // and two lengths tell the time of a draft from that of each depth.
  std::array<int, kProbes> probes;
  size_t found = 0;
  for (int arm = 0; arm < arms.size() && found < kProbes; ++arm) {
    const ArmSet::Facts& facts = arms.facts(arm);
    const bool is_chain = arms.arm(arm).proposer.kind == Proposer::Kind::kModel &&
                          facts.has_fixed_length && facts.sequences == 1;
    if (is_chain && (context.allowed & ArmSet::Bit(arm)) != 0) probes[found++] = arm;
  }
  if (found == 0) return std::nullopt;
  for (size_t i = found; i < kProbes; ++i) probes[i] = probes[i - found];
  const CostModel& costs = planner_->controller_->costs();
  const double plain = costs.RoundSeconds(arms.facts(arms.plain()), context);
  double lost = 0;
  for (const int arm : probes) lost += costs.RoundSeconds(arms.facts(arm), context) - plain;
  // A drafter that seems fast needs no second probe: the policy will ask it for drafts.
  const double share = kShare * planner_->StepSessions();
  const double after = lost > kProbes * plain ? std::min(lost / share, kAgain) : kAgain;
  std::optional<double>& measured = planner_->measured_at_;
  if (trial || !measured.has_value() || planner_->step_seconds_ - *measured > after) {
    measured = planner_->step_seconds_;
    probes_ = kProbes;
  }
  if (probes_ == 0) return std::nullopt;
  return probes[kProbes - probes_--];
}

SessionPlanner::~SessionPlanner() {
  if (round_.has_value()) --planner_->rounds_under_way_;
}

void SessionPlanner::Begin(int arm, std::optional<Choice> choice) {
  round_ = Round{.arm = arm, .choice = choice, .prompt_seconds = planner_->prompt_seconds_};
  ++rounds_[static_cast<size_t>(arm)];
}

NextRound SessionPlanner::Choose(const Situation& situation, size_t tokens) {
  OUTRIDER_CHECK(!round_.has_value());
  if (situation.drafter.has_value()) Follow(situation.drafter->model);
  ++planner_->rounds_under_way_;
  Situation allowed = situation;
  if (planner_->learns_ &&
      !planner_->guard_.Allows(planner_->rounds_under_way_, situation.is_open)) {
    allowed.drafter.reset();
  }
  return ChooseArm(allowed, tokens);
}

NextRound SessionPlanner::ChooseArm(const Situation& situation, size_t tokens) {
  const ArmSet& arms = planner_->arms();
  std::array<StreamEstimate, kMaxArms> streams;
  const ArmMask allowed = Allowed(situation, tokens, streams);
  const Context context = {.allowed = allowed,
                           .step_sessions = planner_->StepSessions(),
                           .step_context = planner_->step_context_,
                           .remaining = situation.remaining,
                           .streams = {streams.data(), static_cast<size_t>(arms.proposers())}};
  const bool trial = situation.drafter.has_value() && situation.drafter->trial;
  if (const std::optional<int> probe = Probe(context, trial); probe.has_value()) {
    Begin(*probe, std::nullopt);
    return {.shape = arms.arm(*probe).shape,
            .draft = {},
            .rule = rule_.value_or(arms.arm(*probe).rule)};
  }
  const bool stays_plain = (allowed & ~plain_.among) == 0 && plain_.left > 0;
  if (stays_plain || (planner_->steps_ < kFirstSteps && planner_->learns_)) {
    plain_.left -= stays_plain ? 1 : 0;
    Begin(arms.plain(), std::nullopt);
    return {.rule = rule_.value_or(Rule::kBlock)};
  }
  const Choice choice = control_->Choose(context);
  Begin(choice.arm, choice);
  const bool plain = choice.arm == arms.plain();
  // Restricting the arms cannot raise the best arm's value, so plain decoding stays best among any
  // subset of those it was best among.
  plain_.among = plain ? plain_.among | allowed : 0;
  plain_.runs = plain ? plain_.runs + 1 : 0;
  constexpr int kMostDoublings = 4;
  plain_.left = plain ? (1 << std::min(plain_.runs - 1, kMostDoublings)) - 1 : 0;
  if (planner_->metrics_ != nullptr && choice.seconds > 0) {
    planner_->metrics_->arms[static_cast<size_t>(choice.arm)].expected_tokens_per_second.Set(
        choice.tokens / choice.seconds);
  }

  return RoundOf(arms.arm(choice.arm), situation);
}

NextRound SessionPlanner::RoundOf(const Arm& arm, const Situation& situation) {
  NextRound next{.rule = rule_.value_or(arm.rule)};
  switch (arm.proposer.kind) {
    case Proposer::Kind::kNone:
    case Proposer::Kind::kGrammar: break;
    case Proposer::Kind::kModel: {
      next.shape = arm.shape;
      next.stop = stop_;
      if (arm.stop != StopRule::Kind::kLength) {
        next.stop = {.kind = arm.stop, .threshold = DefaultThreshold(arm.stop)};
      }
      break;
    }
    case Proposer::Kind::kPromptLookup:
    case Proposer::Kind::kSuffixAutomaton: {
      const int length = std::min(situation.longest(), arm.shape.length);
      next.draft = ToDraft(local_.Propose(SourceOf(arm.proposer.kind), length).tokens, kind_);
      break;
    }
  }
  return next;
}

std::string_view SessionPlanner::arm_name() const {
  return round_.has_value() ? std::string_view(planner_->arms().arm(round_->arm).name) : "";
}

Proposer::Kind SessionPlanner::proposer() const {
  return round_.has_value() ? planner_->arms().arm(round_->arm).proposer.kind
                            : Proposer::Kind::kNone;
}

void SessionPlanner::Report(const RoundOutcome& result) {
  const int sessions = planner_->rounds_under_way_--;
  if (model_.empty() || !planner_->learns_) return;
  const ArmSet& arms = planner_->arms();
  DraftingGuard& guard = planner_->guard_;
  guard.OnRound({.sessions = sessions,
                 .seconds = result.seconds,
                 .plain_seconds = planner_->controller_->costs().RoundSeconds(
                     arms.facts(arms.plain()), {.step_sessions = static_cast<double>(sessions),
                                                .step_context = planner_->step_context_}),
                 .tokens = result.emitted});
  if (planner_->metrics_ == nullptr) return;
  planner_->metrics_->drafters_held_back.Set(guard.Allows(sessions, /*is_open=*/true) ? 0 : 1);
  planner_->metrics_->drafters_measured_speedup.Set(guard.Speedup(sessions));
}

void SessionPlanner::Conclude(RoundOutcome result) {
  if (!round_.has_value()) return;
  const Round round = *std::exchange(round_, std::nullopt);
  result.seconds -= planner_->prompt_seconds_ - round.prompt_seconds;
  Report(result);
  if (round.choice.has_value()) {
    // An end by the arm's own stop rule is a result of the arm, as a rejected token is.
    const Arm& arm = planner_->arms().arm(round.arm);
    const bool stops = arm.stop != StopRule::Kind::kLength && result.drafted > 0;
    control_->Observe({.accepted = result.accepted,
                       .drafted = stops ? arm.shape.length : result.drafted,
                       .emitted = result.emitted,
                       .seconds = result.seconds,
                       .truncated = !result.teaches});
  } else if (round.arm == planner_->arms().plain()) {
    control_->ObserveRepeated();
  }
  if (VerifierMetrics* const metrics = planner_->metrics_; metrics != nullptr) {
    VerifierMetrics::Arm& arm = metrics->arms[static_cast<size_t>(round.arm)];
    arm.rounds.Increment();
    if (IsSeconds(result.seconds)) {
      arm.tokens.Increment(result.emitted);
      arm.seconds.Increment(result.seconds);
    }
    metrics->arm_switches_total.Increment(static_cast<double>(switches() - switches_.counted));
    if (IsSeconds(result.seconds) && round.choice.has_value() && round.choice->best_speed > 0) {
      metrics->arm_regret_seconds.Add(result.seconds - result.emitted / round.choice->best_speed);
    }
  }
  switches_.counted = switches();
}

void SessionPlanner::OnDraftComplete(double waited) {
  if (!round_.has_value()) return;
  // Prompts that were read while the draft was under way delayed nothing.
  const double prompts = planner_->prompt_seconds_ - round_->prompt_seconds;
  round_->prompt_seconds += prompts - std::min(prompts, waited);
}

void SessionPlanner::OnDrafted(const DraftTree& draft, double round_trip, double drafting) {
  if (!round_.has_value()) return;
  planner_->measured_at_ = planner_->step_seconds_;
  ArmSet::Facts facts = planner_->arms().facts(round_->arm);
  facts.has_fixed_length = facts.has_fixed_length && has_fixed_length();
  CostModel& costs = planner_->controller_->costs();
  costs.ObserveDraft(facts, draft.max_depth(), drafting);
  costs.ObserveRoundTrip(facts.proposer, round_trip - drafting);
}

void SessionPlanner::Summarize(Summary* summary) const {
  const ArmSet& arms = planner_->arms();
  for (int arm = 0; arm < arms.size(); ++arm) {
    const int rounds = rounds_[static_cast<size_t>(arm)];
    if (rounds > 0) summary->arm_rounds.emplace_back(arms.arm(arm).name, rounds);
  }
  summary->arm_switches = static_cast<int>(switches());
}

void SessionPlanner::Finish(std::span<const TokenId> output) { local_.Remember(output); }

Planner::Planner(PlannerOptions options, VerifierMetrics* metrics)
    : options_(std::move(options)),
      metrics_(metrics),
      learns_(options_.control.policy == "adaptive"),
      controller_(Controller::Create(options_.control, ServedArms(options_)).value()),
      store_(options_.store) {
  for (const PassTime& pass : options_.passes) {
    controller_->costs().ObserveStep(pass.rows, /*context=*/0, pass.seconds);
    // A pass of one row does not show what more rows cost.
    if (pass.rows > 1) steps_ = kFirstSteps;
  }
}

std::unique_ptr<SessionPlanner> Planner::Open(const GenerationRequest& request,
                                              const ResolvedSpeculation& plan) {
  const SpeculationOptions& asked = request.speculation;
  if (!asked.enabled || asked.draft_length > 0 || asked.paths > 0 || !asked.tree.empty()) {
    return nullptr;
  }
  if (DependsOnDrafts(request, plan)) return nullptr;
  return std::unique_ptr<SessionPlanner>(new SessionPlanner(this, request, plan));
}

float Planner::HeadThreshold(double tokens_per_second, double depth_seconds,
                             double acceptance) const {
  const CostModel& costs = controller_->costs();
  // As everywhere in control, all sessions of a step are assumed to do the same.
  constexpr double kDepths = 8;
  const double sessions = StepSessions();
  const double row = (costs.StepSeconds(sessions * (1 + kDepths), step_context_) -
                      costs.StepSeconds(sessions, step_context_)) /
                     kDepths;
  const double h =
      PayingThreshold(tokens_per_second, depth_seconds + std::max(row, 0.0), acceptance);
  // In steps: an early draft is only useful if it was made under the same rule.
  constexpr double kSteps = 20;
  return static_cast<float>(std::round(h * kSteps) / kSteps);
}

double Planner::StepSessions() const { return std::max(1.0, rounds_under_way_ + unplanned_); }

void Planner::OnStep(const PlannedStep& step) {
  constexpr double kGain = 1.0 / 32;
  ++steps_;
  if (IsSeconds(step.seconds)) step_seconds_ += step.seconds;
  unplanned_ += (step.sessions - step.planned - unplanned_) * kGain;
  step_context_ += (static_cast<double>(step.context) - step_context_) * kGain;
  CostModel& costs = controller_->costs();
  costs.ObserveStep(step.rows, static_cast<double>(step.context), step.seconds);
  if (step.prompt_rows == 0 || !IsSeconds(step.seconds)) return;
  const double whole = costs.StepSeconds(step.rows, step_context_);
  const double rest = costs.StepSeconds(std::max(step.rows - step.prompt_rows, 1), step_context_);
  if (whole > rest) prompt_seconds_ += step.seconds * (1 - rest / whole);
}

}  // namespace outrider
