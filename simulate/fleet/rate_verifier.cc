#include "simulate/fleet/rate_verifier.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "verifier/engine/engine.h"

namespace outrider {
namespace {

// Of a token: less than what rounding a time to nanoseconds moves an end by.
constexpr double kRounding = 1e-5;
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

RateVerifier::RateVerifier(const FleetScenario& scenario, const LayoutRates* rates, bool speculates,
                           int zone, uint64_t seed, const Tokenizer& tokenizer, EventQueue* queue)
    : FleetVerifier(zone, queue, std::make_shared<SimulatedDevice>()),
      scenario_(scenario),
      rates_(*rates),
      speculates_(speculates),
      random_(seed),
      model_(PagesOf(scenario), [](double) {}),
      limits_(Engine::LimitsOf({}, model_, tokenizer)),
      admission_(AdmissionOptionsOf(scenario), &sessions_, &model_, &observers_),
      gate_(scenario.verifier.waiting),
      pool_(TargetIdentityOf(tokenizer), DraftDistributionLimits{}, nullptr, &clock_),
      advanced_(clock_.Now()) {
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
  first_chunks_ = {};
  ends_ = {};
}

void RateVerifier::SetDrafters(double drafters) {
  Post([this, drafters] {
    drafters_ = drafters;
    if (speculates_) ReopenAtDrafters();
  });
}

bool RateVerifier::Step() {
  Advance();
  while (!first_chunks_.empty() && first_chunks_.top().first <= clock_.Now()) {
    const uint64_t id = first_chunks_.top().second;
    first_chunks_.pop();
    TakeFirstChunk(id);
  }
  while (!ends_.empty() && ends_.top().first <= tokens_ + kRounding) {
    const uint64_t id = ends_.top().second;
    ends_.pop();
    const int further = sessions_.at(id)->max_new_tokens - progress_.at(id).first_tokens;
    listener_->OnRest(id, further, clock_.Now());
    Finish(id);
  }
  Admit();
  DecideRounds();
  gate_.Publish(admission_.waiting(), admission_.RetryAfter());
  UpdateRate();
  return false;
}

void RateVerifier::Advance() {
  const Time now = clock_.Now();
  const double seconds = Seconds(now - advanced_);
  advanced_ = now;
  if (seconds <= 0 || admission_.running() == 0) return;
  CountBusy(seconds * rate_.verifier_busy);
  if (ends_.empty()) return;
  const double each = seconds / rate_.token_seconds;
  const double all = each * static_cast<double>(ends_.size());
  tokens_ += each;
  drafter_seconds_ += all * rate_.drafter_seconds;
  listener_->OnTokens(all, now);
}

void RateVerifier::Admit() {
  while (Session* const session = admission_.AdmitNext(clock_.Now())) {
    const RatePoint rate = rates_.At(admission_.running(), drafters_);
    const double seconds =
        slowness() * (rate.first_seconds + rate.prompt_token_seconds * session->pending());
    first_chunks_.emplace(clock_.Now() + SimulatedSeconds(seconds), session->id);
    if (speculates_) OpenAtDrafter(*session);
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
  // What the draft may save.
  const double worth = scenario_.draft_length * scenario_.verifier.cost.Seconds(1);
  pool_.SetTimeout(session, SimulatedSeconds(worth));
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
  const double mean = rates_.At(admission_.running(), drafters_).first_tokens;
  const int tokens = static_cast<int>(mean + random_.Uniform());
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
  if (computed < shared_tokens) {
    const auto tokens =
        std::span(session.tokens)
            .subspan(static_cast<size_t>(computed), static_cast<size_t>(shared_tokens - computed));
    const ForwardSequence share{.sequence = session.sequence, .tokens = tokens};
    ForwardOutput output;
    if (!model_.Forward({&share, 1}, /*want_hidden=*/false, &output).ok()) return;
  }
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
  const int cached = session.summary.cached_tokens;
  sessions_.erase(found);
  listener_->OnFinished(
      id, {.drafted = tokens * rate_.drafted, .accepted = tokens * rate_.accepted}, cached);
}

void RateVerifier::UpdateRate() {
  const int running = admission_.running();
  if (running == 0) return;
  rate_ = rates_.At(running, drafters_);
  if (speculates_ && drafters_ > 0 && with_drafter_ < running) {
    const double share = static_cast<double>(with_drafter_) / running;
    const double plain = rates_.At(running, 0).token_seconds;
    rate_.token_seconds = 1 / (share / rate_.token_seconds + (1 - share) / plain);
    rate_.drafted *= share;
    rate_.accepted *= share;
    rate_.drafter_seconds *= share;
  }
  rate_.token_seconds *= slowness();
}

std::optional<Time> RateVerifier::NextDeadline() const {
  std::optional<Time> next;
  if (!first_chunks_.empty()) next = first_chunks_.top().first;
  if (ends_.empty()) return next;
  const double left = std::max(ends_.top().first - tokens_, 0.0);
  const Time end = clock_.Now() + SimulatedSeconds(left * rate_.token_seconds);
  return next.has_value() ? std::min(*next, end) : end;
}

}  // namespace outrider
