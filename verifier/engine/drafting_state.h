// Where a sequence stands with its drafter: the plan under way, what has come of its draft, how
// long the round waits for the rest, and what the drafter has not been told yet. A state machine:
//
//   any but kOff -> kAwaiting  Await: a drafter took the plan
//   any but kOff -> kIdle      Await, for a plan that is not waited for
//   kAwaiting -> kArrived      TakeDraft; Expire, if a part of the draft has come
//   kAwaiting -> kIdle         Expire, if none of it has come; UseOwnDraft
//   kArrived -> kIdle          EndRound
//   any but kOff -> kDetached  MarkLost, MarkRefused, Detach
//   any -> kOff                TurnOff: too few tokens remain, or the verifier drains
//
// It chooses no drafter and sends nothing; DraftExchange does. Times come from the caller.
//
// Which drafter holds the sequence is the DraftSource's to know (verifier/pool/assignments.h).
// kDetached is no second copy of that: it says that the next plan has to open the sequence with all
// of its text, because what the drafter was told so far (plan(), and what Decision tells next) is
// of no use any more. It changes with the DraftSource's own words alone: Open (Await), Close and
// ReassignSession (Detach), OnDrafterLost and OnRefused (MarkLost, MarkRefused).
//
// Owner: the sequence's Session. Thread: the engine thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/spec/draft_tree.h"
#include "verifier/engine/draft_source.h"

namespace outrider {

// A seeded request waits this much longer than others for its drafts, all of them together: its
// text must not depend on how fast the drafter happens to be, only on whether it is there.
inline constexpr Duration kSeededWait = std::chrono::seconds(2);

class DraftingState {
 public:
  DraftingState() = default;  // off
  // `extra_wait`: how much longer than usual its drafts are waited for, all of them together.
  explicit DraftingState(Duration extra_wait) : state_(State::kDetached), extra_wait_(extra_wait) {}

  bool is_off() const { return state_ == State::kOff; }
  // A drafter was told of the sequence, and its next plan goes to the same one.
  bool is_attached() const { return state_ != State::kOff && state_ != State::kDetached; }
  // The round under way must not be decided before deadline().
  bool holds_round() const { return state_ == State::kAwaiting && deadline_ != Time::max(); }
  // When the round goes on with what has come of the draft. REQUIRES: holds_round().
  Time deadline() const { return deadline_; }
  // Whether a drafter may be asked in this round.
  bool is_rested(uint32_t round) const { return !is_off() && round >= rest_until_; }

  // What the next step scores; empty: nothing.
  const DraftTree& draft() const { return draft_; }
  // The draft is the verifier's own.
  bool is_local() const { return is_local_; }
  // It is what the request's grammar leaves no choice about.
  bool is_forced() const { return is_forced_; }
  // The last plan that a drafter got, and when.
  const DraftPlan& plan() const { return plan_; }
  Time plan_sent() const { return plan_sent_; }
  // A drafter was asked for the round under way, and the round waited or waits for it.
  bool was_asked() const { return was_asked_; }
  // A drafter was asked for the round under way only to measure how fast it drafts; the draft is
  // not used.
  bool is_unawaited() const { return is_unawaited_; }

  // The round under way is decided without a drafter: on a draft of the verifier's own, or, if
  // `draft` is empty, as a plain round.
  void UseOwnDraft(DraftTree draft, bool is_forced = false);
  // What a drafter that holds the sequence has to be told with its next plan. REQUIRES:
  // is_attached().
  SessionVerdict Decision(uint64_t session, const DraftPlan& plan) const;
  // A drafter got `plan`, for the round under way. `round_waits`: false lets the round go on
  // although a draft may come. With a timeout of zero the plan is not waited for, and the sequence
  // rests.
  void Await(const DraftPlan& plan, const DraftTimeout& timeout, bool round_waits, Time now);
  // Time in which the verifier still computed the text does not count as waited for the draft.
  void Postpone(Time now);

  // Whether a draft of `round` would still be scored.
  bool Expects(uint32_t round) const { return state_ == State::kAwaiting && plan_.round == round; }
  // The draft as far as it has come. REQUIRES: Expects its round.
  void TakePart(const DraftTree& part) { partial_ = part; }
  // The whole draft. REQUIRES: Expects its round.
  void TakeDraft(const DraftTree& draft, Time now);
  // The deadline has passed: the round goes on with the part that has come, if any. A draft that
  // is not whole in time counts as missed, whatever part has come. REQUIRES: holds_round().
  void Expire(Time now);

  // The drafter is gone. What has come of its draft is scored. The next drafter starts with no
  // missed drafts, unless the round was waiting for this one. `round`: the one under way.
  void MarkLost(uint32_t round);
  // The drafter is there, but does not take the sequence.
  void MarkRefused(uint32_t round);
  // The drafter was suspended and is in time again: its plans may come at once.
  void EndRest();
  // The sequence was closed at its drafter, so that another one can take it.
  void Detach();
  void TurnOff() { state_ = State::kOff; }

  // The round is decided: `node` of its draft was accepted, `emitted` are the tokens up to it and
  // the one after it. `acceptance`: of the nodes of a drafter's draft, for a drafter that learns
  // from it, as SessionVerdict has it.
  void EndRound(int node, std::span<const TokenId> emitted, std::string acceptance = {});

 private:
  enum class State {
    kOff,
    kDetached,  // no drafter holds the sequence
    kAwaiting,  // a plan is under way
    kArrived,   // its draft is here, or the part of it that came in time
    kIdle,      // a drafter holds the sequence, but no plan is under way
  };
  // What happened since the drafter's last draft.
  struct Untold {
    int node = 0;                 // of that draft: the path to it was accepted
    std::vector<TokenId> tokens;  // that follow it
    std::string acceptance;
  };

  // No plan for a while: twice as long with every draft in a row that was missed, so that a drafter
  // that cannot keep up costs little.
  void Rest(uint32_t round);
  void SpendExtraWait(Time now);

  State state_ = State::kOff;
  DraftPlan plan_;
  Time plan_sent_;
  Time waits_since_;       // nothing else was to be computed for the sequence from here on
  Time deadline_;          // Time::max(): the round does not wait
  Duration timeout_{};     // how long such a draft is usually waited for
  Duration extra_wait_{};  // what is left of it
  bool was_asked_ = false;
  bool is_unawaited_ = false;
  DraftTree partial_;  // kAwaiting: what has come of the draft
  DraftTree draft_;
  bool is_local_ = false;
  bool is_forced_ = false;
  Untold untold_;
  int missed_ = 0;  // drafts in a row that were not whole in time
  uint32_t rest_until_ = 0;
};

}  // namespace outrider
