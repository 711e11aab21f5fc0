#include "verifier/pool/drafter_pool.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"

namespace outrider {
namespace {

// Late drafts in a row after which a session leaves a drafter that is not suspended.
constexpr int kLateToMove = 2;
// The share of time that all trials of suspended drafters together may be waited for. Otherwise
// many drafters that never draft, or one that reconnects again and again, would make every request
// wait.
constexpr double kTrialShare = 1. / 40;
// How long a drafter is of no use before a newcomer may displace it: some six trials of a busy
// verifier. So slow drafters that displace each other do it once a minute.
constexpr Duration kKeepsPlace = std::chrono::minutes(1);

// The plan within this drafter's limits.
DraftPlan Bounded(DraftPlan plan, const DrafterHello& hello) {
  plan.shape.length = std::min(plan.shape.length, hello.max_draft_length);
  while (plan.shape.length > 1 && plan.shape.total_draws() > hello.max_draft_tokens) {
    --plan.shape.length;
  }
  return plan;
}

// For the log.
const char* DescribeEnd(StreamEnd why) {
  switch (why) {
    case StreamEnd::kClosed: return "it closed its stream, as on SIGTERM";
    case StreamEnd::kGone: return "the connection broke: the process or the network is gone";
    case StreamEnd::kProtocolError: return "what it sent broke the protocol; its stream was closed";
    case StreamEnd::kOverload: return "too many messages waited for it; its stream was closed";
  }
  return "";
}

}  // namespace

DrafterPool::DrafterPool(TargetIdentity target, const DraftDistributionLimits& distribution_limits,
                         VerifierMetrics* metrics, const Clock* clock,
                         const DrafterPoolOptions& options)
    : target_(std::move(target)),
      distribution_limits_(distribution_limits),
      options_(options),
      metrics_(metrics),
      clock_(clock) {}

Status DrafterPool::Refuse(const DrafterHello& hello, Status why) const {
  if (metrics_ != nullptr) metrics_->drafters_refused_total.Increment();
  Log(LogLevel::kWarning, "drafter refused", {{"drafter", hello.name}, {"reason", why.message()}});
  return why;
}

Status DrafterPool::Join(uint64_t id, const DrafterHello& hello,
                         std::shared_ptr<DrafterLink> link) {
  if (draining_) return Unavailable("the verifier is draining");
  if (Status status = CheckHello(target_, hello); !status.ok())
    return Refuse(hello, std::move(status));
  if (hello.visit) {
    link->SendWelcome(WelcomeFor(hello, target_.vocab_size));
    if (AgreeOnProtocol({}, hello.protocol) >= kDemandProtocol) link->SendDemand(Demand());
    link->Close(Status());
    return Status();
  }
  if (!MakeRoom()) {
    return Refuse(hello,
                  ResourceExhausted("the verifier has " + std::to_string(options_.max_drafters) +
                                    " drafters, as many as --max-drafters allows; attach "
                                    "to another verifier"));
  }
  if (TokenizerMismatch(target_, hello).empty()) {
    Welcome(id, hello, std::move(link), std::nullopt);
    return Status();
  }
  link->SendVocabulary(*target_.vocabulary);
  translators_[id] = {.hello = hello, .link = std::move(link), .asked = clock_->Now()};
  return Status();
}

bool DrafterPool::MakeRoom() {
  if (std::ssize(drafters_) + std::ssize(translators_) < options_.max_drafters) return true;
  std::optional<uint64_t> longest;
  const Time now = clock_->Now();
  Time since = now - kKeepsPlace;
  const auto consider = [&](uint64_t id, Time useless, const DrafterLink& link) {
    if (useless > since || !link.CanGoElsewhere()) return;
    longest = id;
    since = useless;
  };
  for (const auto& [id, drafter] : drafters_) {
    const Punctuality& punctuality = drafter.punctuality;
    if (punctuality.silent()) consider(id, punctuality.silent_since(), *drafter.link);
    // One that was asked for a short time has not shown that it is of no use.
    const bool is_full =
        drafter.full.has_value() && drafter.full->last - drafter.full->since >= kKeepsPlace;
    if (is_full) consider(id, drafter.full->since, *drafter.link);
  }
  for (const auto& [id, peer] : translators_) consider(id, peer.asked, *peer.link);
  if (longest.has_value()) Displace(*longest, since);
  return longest.has_value();
}

void DrafterPool::Displace(uint64_t id, Time since) {
  const auto translator = translators_.find(id);
  const bool welcomed = translator == translators_.end();
  const DrafterHello& hello = welcomed ? drafters_.at(id).hello : translator->second.hello;
  Log(LogLevel::kWarning, "drafter of no use gives its place to another one",
      {{"drafter", hello.name},
       {"useless_seconds", Seconds(clock_->Now() - since)},
       {"suspended", welcomed && drafters_.at(id).punctuality.silent()},
       {"welcomed", welcomed}});
  (welcomed ? drafters_.at(id).link : translator->second.link)
      ->Close(ResourceExhausted(
          "the verifier has as many drafters as --max-drafters allows, and this one was of no use "
          "for a minute (suspended, without room, or with no answer to the vocabulary): another "
          "one gets its place"));
  Drop(id);
  if (metrics_ != nullptr) metrics_->drafters_left_displaced.Increment();
}

Status DrafterPool::OnMatch(uint64_t id, const VocabularyMatch& match) {
  const auto it = translators_.find(id);
  if (it == translators_.end()) {
    return FailedPrecondition("a vocabulary match, but no vocabulary was sent");
  }
  Translator translator = std::move(it->second);
  translators_.erase(it);
  if (draining_) return Unavailable("the verifier is draining");
  if (Status status = CheckMatch(target_, translator.hello, match); !status.ok()) {
    return Refuse(translator.hello, std::move(status));
  }
  Welcome(id, std::move(translator.hello), std::move(translator.link), match);
  return Status();
}

void DrafterPool::Welcome(uint64_t id, DrafterHello hello, std::shared_ptr<DrafterLink> link,
                          std::optional<VocabularyMatch> match) {
  ConnectedDrafter& drafter = drafters_[id];
  drafter.punctuality = Punctuality(options_.min_draft_wait);
  drafter.hello = std::move(hello);
  drafter.match = match;
  drafter.link = std::move(link);
  drafter.joined = clock_->Now();
  drafter.last_message = drafter.joined;
  // Ids are the target's, so a translating drafter's own vocabulary size is not a bound.
  const int rows = match.has_value() ? target_.vocab_size : drafter.hello.vocab_size;
  const DrafterWelcome welcome = WelcomeFor(drafter.hello, rows);
  drafter.protocol = welcome.protocol;
  drafter.link->SendWelcome(welcome);
  // The others are told in turn: if all attach at once, each would be told of every other one.
  TellDemand(drafter, Demand());
  CountConnected();
  std::vector<LogField> fields = {{"drafter", drafter.hello.name},
                                  {"model", drafter.hello.model},
                                  {"protocol", drafter.protocol},
                                  {"translates", match.has_value()}};
  if (match.has_value()) {
    fields.emplace_back("shared_tokens", match->shared);
    fields.emplace_back("tokens", match->tokens);
  }
  Log(LogLevel::kInfo, "drafter joined", fields);
}

DrafterWelcome DrafterPool::WelcomeFor(const DrafterHello& hello, int rows) const {
  return {.protocol = *AgreeOnProtocol({}, hello.protocol),
          .model = target_.model,
          .zone = options_.zone,
          .vocab_limit = std::min(vocab_limit(), rows),
          .distribution_limits = distribution_limits_};
}

DrafterDemand DrafterPool::Demand() const {
  return DemandOf(drafters_, assignments_, load_, options_.max_drafters, clock_->Now());
}

void DrafterPool::TellDemand(const RequestLoad& load) {
  load_ = load;
  if (draining_) return;  // they have been told so
  const DrafterDemand demand = Demand();
  if (metrics_ != nullptr) {
    metrics_->drafters_wanted.Set(demand.wanted);
    metrics_->drafters_helping.Set(demand.attached);
  }
  for (auto& [id, drafter] : drafters_) TellDemand(drafter, demand);
}

void DrafterPool::TellDemand(ConnectedDrafter& drafter, const DrafterDemand& demand) {
  if (drafter.protocol < kDemandProtocol || drafter.told == demand) return;
  drafter.link->SendDemand(demand);
  drafter.told = demand;
}

void DrafterPool::CountConnected() {
  if (metrics_ == nullptr) return;
  int translating = 0;
  double least = 1;
  for (const auto& [id, drafter] : drafters_) {
    if (!drafter.match.has_value()) continue;
    ++translating;
    least = std::min(least, static_cast<double>(drafter.match->shared) / drafter.match->tokens);
  }
  metrics_->drafters_connected.Set(static_cast<double>(drafters_.size()));
  metrics_->drafters_translating.Set(translating);
  metrics_->drafter_shared_vocabulary_ratio.Set(least);
}

void DrafterPool::Leave(uint64_t id) {
  translators_.erase(id);
  const auto it = drafters_.find(id);
  if (it == drafters_.end()) return;
  leaving_[id] = {.name = it->second.hello.name, .sessions = assignments_.CountOf(id)};
  Drop(id);
}

void DrafterPool::OnStreamEnd(uint64_t id, StreamEnd why) {
  Leave(id);
  const auto left = leaving_.extract(id);
  if (left.empty()) return;
  // A drafter closes its stream when it is stopped on purpose.
  Log(why == StreamEnd::kClosed ? LogLevel::kInfo : LogLevel::kWarning, "drafter left",
      {{"drafter", left.mapped().name},
       {"sessions", left.mapped().sessions},
       {"reason", DescribeEnd(why)}});
  if (metrics_ == nullptr) return;
  switch (why) {
    case StreamEnd::kClosed: return metrics_->drafters_left_closed.Increment();
    case StreamEnd::kGone: return metrics_->drafters_left_gone.Increment();
    case StreamEnd::kProtocolError: return metrics_->drafters_left_protocol_error.Increment();
    case StreamEnd::kOverload: return metrics_->drafters_left_overload.Increment();
  }
}

void DrafterPool::Drop(uint64_t id) {
  translators_.erase(id);
  drafters_.erase(id);
  decisions_.erase(id);
  for (const uint64_t session : assignments_.RemoveAllOf(id)) consumer_->OnDrafterLost(session);
  CountSilent();
  CountConnected();
}

int DrafterPool::vocab_limit() const {
  return std::min(target_.tokenizer.vocab_size, target_.vocab_size);
}

void DrafterPool::Expel(uint64_t id, const Status& reason) {
  const ConnectedDrafter& drafter = drafters_.at(id);
  Log(LogLevel::kError, "drafter broke the protocol; its stream is closed",
      {{"drafter", drafter.hello.name}, {"reason", reason.message()}});
  drafter.link->Close(reason);
  Drop(id);
  if (metrics_ != nullptr) metrics_->drafters_left_protocol_error.Increment();
}

void DrafterPool::OnDrafts(uint64_t id, std::vector<DraftPart> parts, size_t bytes,
                           std::optional<Time> arrived) {
  if (metrics_ != nullptr) {
    metrics_->draft_bytes_received_total.Increment(static_cast<double>(bytes));
  }
  for (DraftPart& part : parts) {
    const auto it = drafters_.find(id);
    if (it == drafters_.end()) return;
    const Status taken = TakePart(id, it->second, part, arrived.value_or(clock_->Now()));
    if (taken.ok()) continue;
    return Expel(id, taken.Annotate("session " + std::to_string(part.session) + ", round " +
                                    std::to_string(part.round)));
  }
}

Status DrafterPool::TakePart(uint64_t id, ConnectedDrafter& drafter, DraftPart& part,
                             Time arrived) {
  drafter.last_message = clock_->Now();
  const bool suspended = drafter.punctuality.suspended();
  const auto tokens = part.chunk.tokens.size();
  Assignment* assignment = assignments_.Find(part.session);
  if (assignment != nullptr && assignment->drafter != id) assignment = nullptr;
  if (assignment == nullptr || !assignment->Expects(part)) {
    OUTRIDER_TRY(TakeCrossing(drafter, assignment, part, arrived));
  } else if (part.early.has_value()) {
    OUTRIDER_TRY(TakeEarly(drafter, *assignment, std::move(part), arrived));
  } else if (tokens == 0) {
    TakeRefusal(part.session, drafter, *assignment);
  } else {
    OUTRIDER_TRY(assignment->TakePart(std::move(part.chunk), vocab_limit()));
    drafter.drafted_tokens += tokens;
    if (assignment->asked.complete) RecordDraft(drafter, *assignment, part.seconds, arrived);
    consumer_->OnDraft(part.session, part.round, assignment->asked.draft,
                       assignment->asked.complete);
  }
  ReportSuspension(id, drafter, suspended);
  return Status();
}

Status DrafterPool::TakeEarly(ConnectedDrafter& drafter, Assignment& assignment, DraftPart part,
                              Time arrived) {
  const uint64_t session = part.session;
  const bool was_complete = assignment.asked.complete;
  if (metrics_ != nullptr) metrics_->early_drafts_total.Increment();
  OUTRIDER_TRY(assignment.TakeEarly(std::move(part), vocab_limit()));
  if (was_complete || !assignment.asked.complete) return Status();
  const double waited = std::max(0.0, Seconds(arrived - assignment.asked.sent));
  if (drafter.punctuality.suspended()) {
    drafter.punctuality.RecordDraft(clock_->Now(), waited, assignment.worth, assignment.asked.late);
  }
  RecordEarly(drafter, assignment, waited);
  consumer_->OnDraft(session, assignment.asked.plan.round, assignment.asked.draft,
                     /*complete=*/true);
  return Status();
}

void DrafterPool::RecordEarly(ConnectedDrafter& drafter, Assignment& assignment, double waited) {
  drafter.drafted_tokens += static_cast<uint64_t>(assignment.asked.draft.total_draws());
  drafter.early.Add(1);
  assignment.last_seconds = kUnknownSeconds;
  assignment.last_round_trip = waited;
  assignment.late_in_a_row = 0;
  if (metrics_ != nullptr) metrics_->early_drafts_used_total.Increment();
}

void DrafterPool::TakeRefusal(uint64_t session, ConnectedDrafter& drafter,
                              const Assignment& assignment) {
  const Time now = clock_->Now();
  if (!assignment.asked.late)
    drafter.punctuality.RecordRefusal(now, Seconds(now - assignment.asked.sent));
  assignments_.Remove(session);
  consumer_->OnRefused(session);
}

Status DrafterPool::TakeCrossing(ConnectedDrafter& drafter, Assignment* assignment,
                                 const DraftPart& part, Time arrived) {
  const bool future = assignment != nullptr && part.round > assignment->asked.plan.round;
  uint64_t& to_come = part.early.has_value() ? drafter.crossing_early : drafter.crossing_parts;
  if (future || to_come == 0) return InvalidArgument("a draft nobody asked for");
  --to_come;
  if (metrics_ != nullptr) {
    metrics_->draft_tokens_late_total.Increment(static_cast<double>(part.chunk.tokens.size()));
  }
  const bool whole = !part.early.has_value() && !part.chunk.more && !part.chunk.tokens.empty();
  if (assignment == nullptr || !whole || part.round != assignment->overdue.round) return Status();
  const double round_trip = std::max(0.0, Seconds(arrived - assignment->overdue.sent));
  drafter.punctuality.RecordDraft(clock_->Now(), round_trip, assignment->worth, /*late=*/true);
  drafter.drafting.Add(std::clamp(part.seconds, 0.0, round_trip));
  assignment->overdue = {};
  assignment->fresh = false;
  return Status();
}

void DrafterPool::RecordDraft(ConnectedDrafter& drafter, Assignment& assignment,
                              double seconds_drafting, Time arrived) {
  const double round_trip = std::max(0.0, Seconds(arrived - assignment.asked.sent));
  assignment.last_round_trip = round_trip;
  const double drafting = std::clamp(seconds_drafting, 0.0, round_trip);
  const bool suspended = drafter.punctuality.suspended();
  const bool counts = suspended || !assignment.reads;
  if (counts) {
    drafter.punctuality.RecordDraft(clock_->Now(), round_trip, assignment.worth,
                                    assignment.asked.late);
  }
  if (suspended && !drafter.punctuality.suspended()) {
    drafter.drafting = drafter.depth = {};
    drafter.network = {};
  } else if (suspended && assignment.fresh && assignment.tokens > Assignment::kManyTokens) {
    // It had a prompt to read; its next draft will show its usual time.
    drafter.punctuality.RepeatTrial(clock_->Now());
  }
  if (counts) drafter.drafting.Add(drafting);
  if (!assignment.reads) {
    drafter.depth.Add(drafting / assignment.asked.draft.max_depth());
    if (assignment.asked.after.has_value()) drafter.early.Add(0);
    // MarkLate has counted a late one.
    if (!assignment.asked.late) drafter.network.Add(round_trip - drafting);
    assignment.last_seconds = drafting;
    if (metrics_ != nullptr) {
      metrics_->draft_round_trip_seconds.Observe(round_trip);
      metrics_->draft_drafting_seconds.Observe(drafting);
    }
  }
  assignment.fresh = false;
  assignment.reads = false;
  if (!assignment.asked.late) assignment.late_in_a_row = 0;
}

void DrafterPool::OnLoad(uint64_t id, const DrafterLoad& load) {
  if (const auto it = drafters_.find(id); it != drafters_.end()) {
    it->second.load = load;
    const int sessions = assignments_.CountOf(id);
    it->second.others = std::max(load.sessions - sessions, 0);
    if (outrider::HasRoom(it->second, sessions, /*tokens=*/0)) it->second.full.reset();
    it->second.last_message = clock_->Now();
  }
}

void DrafterPool::Drain() {
  draining_ = true;
  for (const auto& [id, drafter] : drafters_) drafter.link->SendDrain();
}

bool DrafterPool::BeginTrialIfDue(ConnectedDrafter& drafter) {
  const Time now = clock_->Now();
  if (!drafter.punctuality.suspended() || !drafter.punctuality.IsTrialDue(now)) return false;
  drafter.punctuality.BeginTrial(now);
  CountSilent();
  return true;
}

void DrafterPool::CountSilent() {
  if (metrics_ == nullptr) return;
  metrics_->drafters_silent.Set(
      static_cast<double>(std::count_if(drafters_.begin(), drafters_.end(), [](const auto& entry) {
        return entry.second.punctuality.silent();
      })));
}

void DrafterPool::ReportSuspension(uint64_t id, const ConnectedDrafter& drafter, bool before) {
  const bool suspended = drafter.punctuality.suspended();
  if (suspended == before) return;
  CountSilent();
  if (suspended) {
    Log(LogLevel::kWarning, "drafter is late; its drafts are not waited for",
        {{"drafter", drafter.hello.name}});
    return;
  }
  Log(LogLevel::kInfo, "drafter is in time: its drafts are waited for",
      {{"drafter", drafter.hello.name}});
  for (const uint64_t session : assignments_.SessionsOf(id)) consumer_->OnDrafterBack(session);
}

std::optional<uint64_t> DrafterPool::Choose(int tokens, bool try_silent) const {
  return ChooseDrafter(drafters_, assignments_, tokens, try_silent, clock_->Now());
}

bool DrafterPool::HasRoom(int tokens) { return !draining_ && ChooseForNew(tokens).has_value(); }

void DrafterPool::RecordFull(int tokens) {
  const Time now = clock_->Now();
  for (auto& [id, drafter] : drafters_) {
    const int sessions = assignments_.CountOf(id);
    if (sessions > 0 || outrider::HasRoom(drafter, sessions, tokens)) {
      drafter.full.reset();
    } else {
      drafter.full = {.since = drafter.full.has_value() ? drafter.full->since : now, .last = now};
    }
  }
}

std::optional<uint64_t> DrafterPool::ChooseForNew(int tokens) {
  RecordFull(tokens);
  return Choose(tokens, /*try_silent=*/true);
}

void DrafterPool::Open(SessionOpening opening) {
  const auto tokens = static_cast<int>(opening.tokens.size());
  const std::optional<uint64_t> id =
      Choose(tokens + opening.plan.shape.length, /*try_silent=*/true);
  OUTRIDER_CHECK(id.has_value());
  ConnectedDrafter& drafter = drafters_.at(*id);
  const Time now = clock_->Now();
  const bool trial = BeginTrialIfDue(drafter);
  const bool awaited_trial =
      trial && drafter.punctuality.MayResume(now) && now >= next_awaited_trial_;
  opening.plan = Bounded(std::move(opening.plan), drafter.hello);
  assignments_.Add(opening.session, {.drafter = *id,
                                     .tokens = tokens,
                                     .asked = {.plan = opening.plan, .sent = now},
                                     .opened = now,
                                     .trial = trial,
                                     .awaited_trial = awaited_trial,
                                     .kind = opening.kind});
  drafter.link->SendOpen(std::move(opening));
}

void DrafterPool::MarkLate(uint64_t session) {
  Assignment* const found = assignments_.Find(session);
  if (found == nullptr) return;
  Assignment& assignment = *found;
  ConnectedDrafter& drafter = drafters_.at(assignment.drafter);
  const bool suspended = drafter.punctuality.suspended();
  assignment.asked.late = true;
  assignment.awaited_trial = false;
  ++assignment.late_in_a_row;
  // A long prompt takes time to read, which another drafter would need as well.
  const bool may_read = assignment.fresh && assignment.asked.parts == 0;
  if (may_read && !suspended && assignment.late_in_a_row < kLateToMove) return;
  const double taken = Seconds(clock_->Now() - assignment.asked.sent);
  const bool reads = assignment.reads && assignment.asked.parts == 0;
  drafter.punctuality.MarkLate(clock_->Now(), reads ? 0 : taken,
                               /*nothing_arrived=*/drafter.last_message <= assignment.asked.sent);
  if (!reads) drafter.network.AddAtLeast(taken - drafter.drafting.mean);
  ReportSuspension(assignment.drafter, drafter, suspended);
}

bool DrafterPool::ReassignSession(uint64_t session) {
  const Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr || draining_) return false;
  const uint64_t from = assignment->drafter;
  ConnectedDrafter& drafter = drafters_.at(from);
  const bool suspended = drafter.punctuality.suspended();
  if (!suspended && assignment->late_in_a_row < kLateToMove) return false;
  // A trial may take as long as any draft that is waited for.
  const double held = Seconds(clock_->Now() - assignment->opened);
  if (suspended && assignment->trial && held < Punctuality::kMaxTimeout) return false;
  const std::optional<uint64_t> to =
      Choose(assignment->tokens + assignment->asked.plan.shape.length, /*try_silent=*/false);
  if (!to.has_value() || *to == from) return false;
  const auto expected = [this](uint64_t id) {
    return ExpectedSeconds(drafters_.at(id), assignments_.CountOf(id));
  };
  if (!suspended && expected(*to) >= expected(from)) return false;
  // The session should not return to the drafter that it comes from.
  BeginTrialIfDue(drafter);
  if (metrics_ != nullptr) metrics_->sessions_moved_total.Increment();
  Close(session);
  return true;
}

void DrafterPool::Decide(SessionVerdict decision) {
  Assignment* const assignment = assignments_.Find(decision.session);
  if (assignment == nullptr) return;
  OUTRIDER_CHECK(decision.node <= assignment->asked.draft.size());
  ConnectedDrafter& drafter = drafters_.at(assignment->drafter);
  const int accepted = assignment->asked.draft.depth(decision.node);
  BeginTrialIfDue(drafter);
  decision.plan = Bounded(std::move(decision.plan), drafter.hello);
  drafter.crossing_parts += assignment->PartsToCome();
  drafter.crossing_early += assignment->EarlyToCome();
  assignment->BeginRound(decision, accepted, clock_->Now());
  drafter.crossing_early -= static_cast<uint64_t>(assignment->asked.early_to_come);
  if (assignment->asked.complete) RecordEarly(drafter, *assignment, /*waited=*/0);
  decisions_[assignment->drafter].push_back(std::move(decision));
}

const DraftTree* DrafterPool::EarlyDraft(uint64_t session) const {
  const Assignment* const assignment = assignments_.Find(session);
  const bool is_here = assignment != nullptr && assignment->asked.complete;
  return is_here ? &assignment->asked.draft : nullptr;
}

void DrafterPool::Close(uint64_t session) {
  const Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr) return;
  ConnectedDrafter& drafter = drafters_.at(assignment->drafter);
  drafter.crossing_parts += assignment->PartsToCome();
  drafter.crossing_early += assignment->EarlyToCome();
  std::erase_if(decisions_[assignment->drafter],
                [session](const SessionVerdict& d) { return d.session == session; });
  drafter.link->SendClose(session);
  assignments_.Remove(session);
}

void DrafterPool::RecordAccepted(uint64_t session, int tokens) {
  const Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr) return;  // the drafter has left since it sent the draft
  drafters_.at(assignment->drafter).accepted_tokens += static_cast<uint64_t>(tokens);
}

void DrafterPool::Flush() {
  for (auto& [id, decisions] : decisions_) {
    if (decisions.empty()) continue;
    drafters_.at(id).link->SendVerdicts(std::exchange(decisions, {}));
  }
}

DraftTimeout DrafterPool::SetTimeout(uint64_t session, Duration worth, Duration step) {
  Assignment* const assignment = assignments_.Find(session);
  if (assignment == nullptr) return {};
  assignment->worth = Seconds(worth);
  const Punctuality& punctuality = drafters_.at(assignment->drafter).punctuality;
  if (!punctuality.suspended()) {
    return {.usual = FromSeconds(punctuality.Timeout(assignment->worth, Seconds(step)))};
  }
  if (!assignment->awaited_trial) return {};
  const double timeout = Punctuality::TrialTimeout(assignment->worth);
  next_awaited_trial_ = clock_->Now() + FromSeconds(timeout / kTrialShare);
  return {.usual = FromSeconds(timeout), .trial = true};
}

std::optional<DraftTiming> DrafterPool::Timing(uint64_t session, int tokens) {
  DraftTiming timing;
  std::optional<uint64_t> id;
  if (const Assignment* const assignment = assignments_.Find(session)) {
    id = assignment->drafter;
    timing.last = assignment->last_seconds;
    timing.last_round_trip = assignment->last_round_trip;
  } else if (!draining_) {
    id = ChooseForNew(tokens);
  }
  if (!id.has_value()) return std::nullopt;
  const ConnectedDrafter& drafter = drafters_.at(*id);
  timing.trial = drafter.punctuality.suspended();
  if (timing.trial && !drafter.punctuality.IsTrialDue(clock_->Now())) return std::nullopt;
  timing.acceptance_head = drafter.hello.acceptance_head;
  timing.model = drafter.hello.model;
  timing.network = drafter.NetworkSeconds().value_or(kUnknownSeconds);
  if (drafter.depth.measured) timing.depth = drafter.depth.mean;
  timing.early = drafter.early.value;
  return timing;
}

std::string DrafterPool::DrafterName(uint64_t session) const {
  const Assignment* const assignment = assignments_.Find(session);
  return assignment == nullptr ? "" : drafters_.at(assignment->drafter).hello.name;
}

std::vector<DrafterSnapshot> DrafterPool::Snapshot() const {
  std::vector<DrafterSnapshot> out;
  for (const auto& [id, drafter] : drafters_) {
    out.push_back({.name = drafter.hello.name,
                   .model = drafter.hello.model,
                   .sessions = assignments_.CountOf(id),
                   .max_sessions = drafter.hello.max_sessions,
                   .connected_seconds = Seconds(clock_->Now() - drafter.joined),
                   .drafted_tokens = drafter.drafted_tokens,
                   .accepted_tokens = drafter.accepted_tokens,
                   .round_trip_ms = drafter.punctuality.round_trip().mean * 1e3,
                   .drafting_ms = drafter.drafting.mean * 1e3,
                   .reported_sessions = drafter.load.sessions,
                   .acceptance_head = drafter.hello.acceptance_head,
                   .silent = drafter.punctuality.silent(),
                   .match = drafter.match,
                   .target_tokens = drafter.match.has_value() ? target_.tokens() : 0});
  }
  return out;
}

}  // namespace outrider
