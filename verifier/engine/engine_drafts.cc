// The engine's rounds as they are planned and drafted: what is asked of whom, and what becomes of
// the answers. The other half, engine.cc, takes requests in and runs the steps.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "verifier/engine/engine.h"

namespace outrider {

int Engine::DraftRoom(const Session& session) const {
  // What the whole cache could hold, and this session's share of a forward pass (a quarter of it is
  // kept for prompts): speculation never costs another session its turn. Bounds look at counts
  // alone, never at tokens.
  const int share = row_budget_ * 3 / 4 / std::max(running_, 1) - 1;
  return std::min(limits_.kv_tokens - static_cast<int>(session.tokens.size()), share);
}

DraftShape Engine::NextShape(const Session& session) const {
  DraftShape shape = session.speculation.shape;
  // The last token of a round is the target's own: a draft of all that remains would waste one.
  shape.length = std::min(shape.length, session.remaining() - 1);
  // Under load drafts get narrower first, then shorter, then none.
  const int room = DraftRoom(session);
  if (shape.total_draws() > room) shape.branching.clear();
  shape.length = std::max(std::min(shape.length, room), 0);
  return shape;
}

NextRound Engine::ChooseRound(Session& session) {
  const bool rested =
      session.draft_state != DraftState::kOff && session.round >= session.rest_until;
  if (session.planner == nullptr) {
    NextRound next{.rule = session.speculation.rule, .stop = session.speculation.stop};
    if (rested) next.shape = NextShape(session);
    return next;
  }
  // A long prompt is read in pieces, for others wait meanwhile.
  constexpr size_t kPiece = 4096;
  const std::span<const TokenId> tokens = session.tokens;
  const std::span<const TokenId> unread = tokens.subspan(session.planner->read());
  session.planner->Read(unread.first(std::min(unread.size(), kPiece)));
  return session.planner->Choose(
      {.remaining = session.remaining(),
       .room = DraftRoom(session),
       .drafter =
           rested ? drafts_->Timing(session.id, static_cast<int>(tokens.size())) : std::nullopt},
      tokens.size());
}

void Engine::PlanNext(Session& session) {
  if (session.draft_state == DraftState::kOff && session.planner == nullptr) return;
  if (session.planner != nullptr && session.planner->pending()) return;  // it was preempted
  if (draining_ || session.remaining() <= 1) {                           // never again
    if (session.draft_state != DraftState::kUnattached && session.draft_state != DraftState::kOff) {
      drafts_->Close(session.id);
    }
    session.draft_state = DraftState::kOff;
    return;
  }
  session.round_begun = clock_->Now();
  session.unawaited = false;
  const bool attached =
      session.draft_state != DraftState::kUnattached && session.draft_state != DraftState::kOff;
  if (attached && drafts_->ReassignSession(session.id)) {
    session.draft_state = DraftState::kUnattached;
    session.rest_until = 0;
  }
  NextRound next = ChooseRound(session);
  session.speculation.rule = next.rule;
  if (next.shape.length > 0) {
    if (next.stop.kind == StopRule::Kind::kHead && next.stop.threshold == 0.f) {
      next.stop.threshold = HeadThreshold(session);
    }
    SendPlan(session, next.shape, next.stop);
    return;
  }
  session.draft = std::move(next.draft);
  session.local_draft = !session.draft.empty();
  if (session.draft_state == DraftState::kPlanned) session.draft_state = DraftState::kResting;
}

// 0, the drafter's own, until the session has shown what it is like.
float Engine::HeadThreshold(const Session& session) const {
  // Nothing that was learned, perhaps from the same coins, and a text that repeats.
  if (DependsOnDrafts(session.request, session.speculation)) return kFirstHeadThreshold;
  constexpr int kEnough = 16;  // tokens
  const int output = static_cast<int>(session.tokens.size()) - session.prompt_tokens;
  const std::optional<DraftTiming> timing = drafts_->Timing(session.id, 0);
  if (!planner_.has_value() || output < kEnough || !timing.has_value() ||
      std::isnan(timing->depth)) {
    return 0.f;
  }
  const double seconds = Seconds(clock_->Now() - session.first_token);
  if (seconds <= 0) return 0.f;
  // As if five more had been drafted, of which three stood; every draft ends with one that does
  // not.
  const double accepted = 3 + static_cast<double>(session.summary.accepted_tokens);
  const double acceptance =
      accepted / (2 + accepted + static_cast<double>(session.summary.drafted_rounds));
  return planner_->HeadThreshold(output / seconds, timing->depth, acceptance);
}

void Engine::SendPlan(Session& session, const DraftShape& shape, const StopRule& stop) {
  const uint32_t last_round = session.plan.round;
  session.plan = {.round = session.round, .shape = shape, .stop = stop};
  session.plan_sent = clock_->Now();
  session.partial = {};
  if (session.draft_state == DraftState::kUnattached) {
    if (!drafts_->Open({.session = session.id,
                        .tokens = session.tokens,
                        .prompt_tokens = session.prompt_tokens,
                        .sampling = &session.request.sampling,
                        .seed = session.seed,
                        .kind = session.speculation.kind,
                        .plan = session.plan,
                        .trace = session.request.trace.has_value() ? &session.request.trace->context
                                                                   : nullptr})) {
      return;
    }
  } else {
    drafts_->Decide({.session = session.id,
                     .round = last_round,
                     .node = session.untold_node,
                     .accepted = session.untold_accepted,
                     .next = session.untold,
                     .plan = session.plan,
                     .acceptance = std::exchange(session.untold_acceptance, {})});
  }
  session.untold.clear();
  session.untold_node = 0;
  session.untold_accepted = 0;
  SetDeadline(session);
}

Duration Engine::Worth(const Session& session, const DraftShape& shape) const {
  if (step_seconds_ <= 0) return std::chrono::hours(1);  // not known yet
  // Not less for a draft that is short because the request ends.
  const int tokens = std::max(shape.length, session.speculation.shape.length);
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(tokens * step_seconds_));
}

void Engine::SetDeadline(Session& session) {
  session.draft_state = DraftState::kPlanned;
  const Patience patience = drafts_->PatienceWith(session.id, Worth(session, session.plan.shape));
  session.patience = patience.usual;
  if (session.patience == Duration::zero()) {
    session.unawaited = true;
    Rest(session);
    session.draft_state = DraftState::kResting;
    return;
  }
  session.asked_round = session.round;
  session.waited_since = session.plan_sent;
  if (session.round == 1 && Ready(session)) {
    session.plan_deadline = Time::max();  // the round does not wait for it
  } else {
    const Duration longer = patience.trial ? Duration::zero() : session.seeded_wait;
    session.plan_deadline = session.plan_sent + session.patience + longer;
  }
}

void Engine::PostponeDeadline(Session& session) {
  if (session.draft_state != DraftState::kPlanned || session.plan_deadline == Time::max()) return;
  const Time now = clock_->Now();
  session.plan_deadline += now - std::exchange(session.waited_since, now);
}

void Engine::SpendSeededWait(Session& session) {
  if (session.plan_deadline == Time::max()) return;  // the round did not wait
  const Time patience_over = session.waited_since + session.patience;
  session.seeded_wait -= std::clamp(clock_->Now() - patience_over, Duration::zero(),
                                    session.plan_deadline - patience_over);
}

void Engine::MarkLate(Session& session) {
  if (metrics_ != nullptr) metrics_->draft_timeouts_total.Increment();
  SpendSeededWait(session);
  Rest(session);
  drafts_->MarkLate(session.id);
  session.draft = std::exchange(session.partial, {});
  session.draft_state = session.draft.empty() ? DraftState::kResting : DraftState::kArrived;
}

void Engine::Rest(Session& session) {
  // Twice as long a rest with every draft in a row that was not whole in time: a drafter that
  // cannot keep up costs little.
  constexpr int kMaxDoublings = 6;
  session.rest_until = session.round + (1u << std::min(session.missed, kMaxDoublings));
  ++session.missed;
}

void Engine::OnDraft(uint64_t id, uint32_t round, const DraftTree& draft, bool complete) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = *it->second;
  if (session.draft_state != DraftState::kPlanned || session.plan.round != round ||
      session.round != round) {
    return;  // too late: the round went on without it
  }
  if (!complete) {  // late counts as late, whatever part has come
    session.partial = draft;
    return;
  }
  session.missed = 0;
  SpendSeededWait(session);
  if (session.planner != nullptr) {
    const std::optional<DraftTiming> timing = drafts_->Timing(id, 0);
    const double total = Seconds(clock_->Now() - session.plan_sent);
    if (timing.has_value()) session.planner->OnDrafted(draft, total, timing->last);
  }
  session.partial = {};
  session.draft = draft;
  session.draft_state = DraftState::kArrived;
}

void Engine::OnDrafterLost(uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  Session& session = *it->second;
  if (session.draft_state == DraftState::kOff) return;
  // What has arrived of a draft is as good as any: it is scored before the session is opened again.
  // Another drafter starts without the faults of this one, unless it was waited for.
  if (!session.partial.empty()) session.draft = std::exchange(session.partial, {});
  const bool awaited =
      session.draft_state == DraftState::kPlanned && session.plan_deadline != Time::max();
  session.draft_state = DraftState::kUnattached;
  if (awaited) {
    Rest(session);  // or one that comes back and leaves again would cost a deadline each time
  } else {
    session.missed = 0;
    session.rest_until = 0;
  }
}

void Engine::OnDrafterBack(uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  it->second->missed = std::min(it->second->missed, 1);
  it->second->rest_until = 0;
}

void Engine::OnRefused(uint64_t id) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end() || it->second->draft_state == DraftState::kOff) return;
  Session& session = *it->second;
  if (!session.partial.empty()) session.draft = std::exchange(session.partial, {});
  Rest(session);
  session.draft_state = DraftState::kUnattached;
}

}  // namespace outrider
