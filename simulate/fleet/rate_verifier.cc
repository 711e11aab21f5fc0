#include "simulate/fleet/rate_verifier.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "verifier/engine/engine.h"
#include "verifier/engine/scheduler.h"

namespace outrider {
namespace {

// Drafts teach the pool its drafters' speed. It learns enough from those of a part of the sessions,
// besides those of drafters that it does not know yet.
constexpr uint64_t kSessionsPerDraft = 16;

PacedModelOptions PagesOf(const FleetScenario& scenario) {
  PacedModelOptions options = TargetOptions(scenario);
  options.max_batch_tokens = options.max_position_embeddings;  // a prompt is read at once
  return options;
}

AdmissionOptions AdmissionOptionsOf(const FleetScenario& scenario) {
  const bool shares = std::any_of(scenario.classes.begin(), scenario.classes.end(),
                                  [](const FleetClass& c) { return c.prefixes > 0; });
  return {.max_running = scenario.verifier.sessions,
          .max_waiting = scenario.verifier.waiting,
          .max_waiting_per_client = scenario.verifier.waiting,
          .prefix_cache = shares};
}

}  // namespace

RateVerifier::RateVerifier(const FleetScenario& scenario, const LayoutRates* rates,
                           FleetLayout layout, int zone, uint64_t seed, const Tokenizer& tokenizer,
                           EventQueue* queue)
    : FleetVerifier(zone, queue, std::make_shared<SimulatedDevice>()),
      scenario_(scenario),
      rates_(*rates),
      layout_(layout),
      random_(seed),
      model_(PagesOf(scenario), [](double) {}),
      limits_(Engine::LimitsOf({}, model_, tokenizer)),
      admission_(AdmissionOptionsOf(scenario), &sessions_, &model_, &observers_),
      gate_(scenario.verifier.waiting),
      pool_(TargetIdentityOf(tokenizer), DraftDistributionLimits{}, nullptr, &clock_) {
  pool_.set_consumer(this);
}

bool RateVerifier::Submit(FleetRequest request, FleetListener* listener) {
  if (draining_ || !gate_.TryEnter()) return false;
  gate_.Leave();
  GenerationRequest generation = GenerationOf(std::move(request.prompt), request.output_tokens);
  if (!Validate(generation, limits_).ok() || !admission_.CheckQueue("").ok()) return false;
  auto session = std::make_unique<Session>();
  session->id = request.id;
  session->prompt_tokens = static_cast<int>(generation.prompt.size());
  session->max_new_tokens = MaxNewTokens(generation, limits_);
  session->tokens = std::move(generation.prompt);
  session->times.submitted = clock_.Now();
  sessions_.emplace(request.id, std::move(session));
  progress_[request.id] = {.shared_tokens = request.shared_tokens};
  listener_ = listener;
  return true;
}

void RateVerifier::FailAll() {
  while (!sessions_.empty()) {
    const uint64_t id = sessions_.begin()->first;
    admission_.Release(*sessions_.begin()->second);
    sessions_.erase(sessions_.begin());
    listener_->OnFailed(id);
  }
  progress_.clear();
  reading_.clear();
  ends_ = {};
}

void RateVerifier::SetDrafters(double drafters) {
  Post([this, drafters] {
    drafters_ = drafters;
    if (layout_ != FleetLayout::kPlain) ReopenAtDrafters();
  });
}

bool RateVerifier::Step() {
  Admit();
  DecideRounds();
  gate_.Publish(admission_.waiting(), admission_.RetryAfter());
  if (admission_.running() > 0 && NextPass() <= clock_.Now()) RunPass();
  return false;
}

Time RateVerifier::NextPass() const {
  // A verifier that waits for drafts reads a prompt meanwhile. On a common device the drafter's
  // passes come first.
  const bool waits = reading_.empty() || layout_ == FleetLayout::kColocated;
  return waits ? ready_ : clock_.Now();
}

void RateVerifier::Admit() {
  while (Session* const session = admission_.AdmitNext(clock_.Now())) {
    reading_.push_back({.session = session->id, .tokens = session->pending()});
    if (layout_ != FleetLayout::kPlain) OpenAtDrafter(*session);
  }
}

void RateVerifier::RunPass() {
  rate_ = Rate();
  const double rows = static_cast<double>(ends_.size()) * rate_.pass_rows;
  std::vector<uint64_t> read;
  const int prompt_rows = ReadPrompts(rows, &read);
  Spend(scenario_.verifier.cost.Seconds(std::max(rows + prompt_rows, 1.0)));
  Decode();
  for (const uint64_t id : read) TakeFirstChunk(id);
  ready_ = clock_.Now() + FromSeconds(ends_.empty() ? 0 : rate_.idle_seconds);
}

int RateVerifier::ReadPrompts(double rows, std::vector<uint64_t>* read) {
  // As ChooseShares of verifier/engine/scheduler.h, with a quarter of the budget for prompts.
  const int budget = scenario_.verifier.token_budget;
  const int left = budget - std::min(static_cast<int>(rows), budget * 3 / 4);
  const int most = std::min(SchedulerOptions{}.prefill_chunk, left);
  int taken = 0;
  while (!reading_.empty() && taken < most) {
    Reading& prompt = reading_.front();
    const int tokens = std::min(prompt.tokens, most - taken);
    taken += tokens;
    prompt.tokens -= tokens;
    if (prompt.tokens > 0) break;
    read->push_back(prompt.session);
    reading_.pop_front();
  }
  return taken;
}

void RateVerifier::Decode() {
  const double gained = rate_.pass_tokens * static_cast<double>(ends_.size());
  tokens_ += rate_.pass_tokens;
  drafter_seconds_ += gained * rate_.drafter_seconds;
  plan_seconds_ += gained * rate_.plan_seconds;
  listener_->OnTokens(gained, clock_.Now());
  // The pass nearest to the end ends it, so that requests are as long on average as they should be.
  while (!ends_.empty() && ends_.top().first <= tokens_ + rate_.pass_tokens / 2) {
    const uint64_t id = ends_.top().second;
    ends_.pop();
    const int further = sessions_.at(id)->max_new_tokens - progress_.at(id).first_tokens;
    listener_->OnRest(id, further, clock_.Now());
    Finish(id);
  }
}

DraftPlan RateVerifier::PlanOf(uint32_t round, bool drafts) const {
  return {.round = round, .shape = drafts ? Sequences(1, scenario_.draft_length) : DraftShape()};
}

void RateVerifier::OpenAtDrafter(const Session& session) {
  const std::optional<DraftTiming> timing =
      pool_.Timing(session.id, static_cast<int>(session.tokens.size()) + scenario_.draft_length);
  if (!timing.has_value()) return;
  const bool drafts =
      timing->trial || std::isnan(timing->depth) || opened_++ % kSessionsPerDraft == 0;
  pool_.Open({.session = session.id,
              .tokens = {},
              .prompt_tokens = session.prompt_tokens,
              .kind = DraftKind::kArgmax,
              .plan = PlanOf(1, drafts)});
  if (drafts) SetDraftTimeout(session.id);
  progress_.at(session.id).has_drafter = true;
  ++with_drafter_;
}

void RateVerifier::ReopenAtDrafters() {
  if (with_drafter_ == admission_.running()) return;
  for (const auto& [id, session] : sessions_) {
    if (session->is_running() && !progress_.at(id).has_drafter) OpenAtDrafter(*session);
  }
}

void RateVerifier::SetDraftTimeout(uint64_t session) {
  const double step = scenario_.verifier.cost.Seconds(1);
  pool_.SetTimeout(session, FromSeconds(scenario_.draft_length * step), FromSeconds(step));
}

void RateVerifier::OnDraft(uint64_t session, uint32_t round, const DraftTree& /*draft*/,
                           bool complete) {
  if (complete && round == 1) drafted_.push_back(session);
}

// The pool learns a drafter's usual time from the second draft of a session: the first one comes
// after its prompt.
void RateVerifier::DecideRounds() {
  if (drafted_.empty()) return;
  for (const uint64_t session : std::exchange(drafted_, {})) {
    if (!progress_.contains(session)) continue;
    pool_.Decide({.session = session,
                  .round = 1,
                  .node = DraftTree::kRoot,
                  .next = {0},
                  .plan = PlanOf(2, /*drafts=*/true)});
    SetDraftTimeout(session);
  }
  pool_.Flush();
}

void RateVerifier::OnDrafterLost(uint64_t session) {
  progress_.at(session).has_drafter = false;
  --with_drafter_;
}

void RateVerifier::TakeFirstChunk(uint64_t id) {
  Session& session = *sessions_.at(id);
  Progress& progress = progress_.at(id);
  if (progress.shared_tokens > 0) SharePrompt(session, progress.shared_tokens);
  // A whole number with the rate's mean.
  const int tokens = static_cast<int>(rate_.first_tokens + random_.Uniform());
  progress.first_tokens = std::clamp(tokens, 1, session.max_new_tokens);
  listener_->OnTokens(progress.first_tokens, clock_.Now());
  listener_->OnChunk(id, progress.first_tokens, clock_.Now());
  const int further = session.max_new_tokens - progress.first_tokens;
  if (further == 0) return Finish(id);
  ends_.emplace(tokens_ + further, id);
}

// Only what others may begin with: the rest would fill the cache and never be used.
void RateVerifier::SharePrompt(Session& session, int shared_tokens) {
  const int computed = session.computed;
  if (computed + model_.page_tokens() > shared_tokens) return;  // the cache has its pages
  const auto tokens =
      std::span(session.tokens)
          .subspan(static_cast<size_t>(computed), static_cast<size_t>(shared_tokens - computed));
  const ForwardSequence share{.sequence = session.sequence, .tokens = tokens};
  ForwardOutput output;
  if (!model_.Forward({&share, 1}, /*want_hidden=*/false, &output).ok()) return;
  session.prompt_tokens = shared_tokens;
  admission_.SharePrompt(session);
}

void RateVerifier::Finish(uint64_t id) {
  const auto found = sessions_.find(id);
  Session& session = *found->second;
  const Progress progress = progress_.at(id);
  admission_.RecordRequest(Seconds(clock_.Now() - *session.times.admitted));
  admission_.Release(session);
  pool_.Close(id);
  if (progress.has_drafter) --with_drafter_;
  progress_.erase(id);
  const double tokens = session.max_new_tokens;
  sessions_.erase(found);
  listener_->OnFinished(id,
                        {.drafted = tokens * rate_.drafted, .accepted = tokens * rate_.accepted});
}

RatePoint RateVerifier::Rate() const {
  const auto decoding = static_cast<double>(ends_.size());
  const RatePoint rate = rates_.At(decoding, drafters_);
  const int running = admission_.running();
  if (layout_ == FleetLayout::kPlain || drafters_ == 0 || with_drafter_ == running) return rate;
  return Between(rates_.At(decoding, 0), rate, static_cast<double>(with_drafter_) / running);
}

std::optional<Time> RateVerifier::NextDeadline() const {
  if (admission_.running() == 0) return std::nullopt;
  return NextPass();
}

}  // namespace outrider
