#include "verifier/engine/drafting_state.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

void DraftingState::UseOwnDraft(DraftTree draft, bool is_forced) {
  draft_ = std::move(draft);
  is_local_ = !draft_.empty();
  is_forced_ = is_forced;
  if (state_ == State::kAwaiting) state_ = State::kIdle;
}

SessionVerdict DraftingState::Decision(uint64_t session, const DraftPlan& plan) const {
  OUTRIDER_CHECK(is_attached());
  return {.session = session,
          .round = plan_.round,
          .node = untold_.node,
          .next = untold_.tokens,
          .plan = plan,
          .acceptance = untold_.acceptance};
}

void DraftingState::Await(const DraftPlan& plan, const DraftTimeout& timeout, bool round_waits,
                          Time now) {
  OUTRIDER_CHECK(!is_off());
  plan_ = plan;
  plan_sent_ = now;
  partial_ = {};
  untold_ = {};
  timeout_ = timeout.usual;
  is_unawaited_ = timeout_ == Duration::zero();
  if (is_unawaited_) {
    state_ = State::kIdle;
    Rest(plan.round);
    return;
  }
  state_ = State::kAwaiting;
  was_asked_ = true;
  waits_since_ = now;
  const Duration extra = timeout.trial ? Duration::zero() : extra_wait_;
  deadline_ = round_waits ? now + timeout_ + extra : Time::max();
}

void DraftingState::MarkSent(Time now) {
  if (state_ != State::kAwaiting) return;
  plan_sent_ = now;
  Postpone(now);
  waits_since_ = now;
}

void DraftingState::Postpone(Time now) {
  if (holds_round()) deadline_ += now - std::exchange(waits_since_, now);
}

void DraftingState::TakeDraft(const DraftTree& draft, Time now) {
  OUTRIDER_CHECK(state_ == State::kAwaiting);
  missed_ = 0;
  SpendExtraWait(now);
  partial_ = {};
  draft_ = draft;
  state_ = State::kArrived;
}

void DraftingState::Expire(Time now) {
  OUTRIDER_CHECK(holds_round());
  SpendExtraWait(now);
  Rest(plan_.round);
  draft_ = std::exchange(partial_, {});
  state_ = draft_.empty() ? State::kIdle : State::kArrived;
}

void DraftingState::MarkLost(uint32_t round) {
  if (is_off()) return;
  if (!partial_.empty()) draft_ = std::exchange(partial_, {});
  const bool was_awaited = holds_round();
  state_ = State::kDetached;
  if (was_awaited) {
    Rest(round);  // or a drafter that reconnects and leaves again would cost a deadline each time
  } else {
    missed_ = 0;
    rest_until_ = 0;
  }
}

void DraftingState::MarkRefused(uint32_t round) {
  if (is_off()) return;
  if (!partial_.empty()) draft_ = std::exchange(partial_, {});
  state_ = State::kDetached;
  Rest(round);
}

void DraftingState::EndRest() {
  missed_ = std::min(missed_, 1);
  rest_until_ = 0;
}

void DraftingState::Detach() {
  OUTRIDER_CHECK(is_attached());
  state_ = State::kDetached;
  rest_until_ = 0;
}

void DraftingState::EndRound(int node, std::span<const TokenId> emitted, std::string acceptance) {
  if (!draft_.empty() && !is_local_) {
    untold_ = {.node = node, .tokens = {emitted.back()}, .acceptance = std::move(acceptance)};
  } else {
    untold_.tokens.insert(untold_.tokens.end(), emitted.begin(), emitted.end());
  }
  draft_ = {};
  partial_ = {};
  is_local_ = false;
  is_forced_ = false;
  was_asked_ = false;
  is_unawaited_ = false;
  if (is_attached()) state_ = State::kIdle;
}

void DraftingState::Rest(uint32_t round) {
  constexpr int kMaxDoublings = 6;
  rest_until_ = round + (1u << std::min(missed_, kMaxDoublings));
  ++missed_;
}

void DraftingState::SpendExtraWait(Time now) {
  if (!holds_round()) return;
  const Time timeout_over = waits_since_ + timeout_;
  extra_wait_ -= std::clamp(now - timeout_over, Duration::zero(), deadline_ - timeout_over);
}

}  // namespace outrider
