// A sequence's relation to its drafter: the plan under way, the part of its draft that has arrived,
// how long the round waits for the rest, and what the drafter has not been told yet. A state
// machine:
//
//   any but kOff -> kAwaiting  Await: a drafter took the plan
//   any but kOff -> kIdle      Await, for a plan that is not waited for
//   kAwaiting -> kArrived      TakeDraft; Expire, if a part of the draft has arrived
//   kAwaiting -> kIdle         Expire, if none of it has arrived; UseOwnDraft
//   kAwaiting -> kIdle         EndRound, if the round did not wait
//   kArrived -> kIdle          EndRound
//   any but kOff -> kDetached  MarkLost, MarkRefused, Detach
//   any -> kOff                TurnOff: too few tokens remain, or the verifier drains
//
// It chooses no drafter and sends nothing; DraftExchange does. Times come from the caller.
//
// DraftSource knows which drafter holds the sequence (verifier/pool/assignments.h). kDetached does
// not repeat that: it says that the next plan has to open the sequence with all of its text,
// because what the drafter was told so far (plan(), and what Decision tells next) no longer
// applies. It only changes together with DraftSource: Open (Await), Close and ReassignSession
// (Detach), OnDrafterLost and OnRefused (MarkLost, MarkRefused).
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

// The extra time that a seeded request waits for all of its drafts together, because its text must
// not depend on a drafter's speed, only on its presence.
inline constexpr Duration kSeededWait = std::chrono::seconds(2);

class DraftingState {
 public:
  DraftingState() = default;  // off
  // `extra_wait`: additional waiting time for all of its drafts together.
  explicit DraftingState(Duration extra_wait) : state_(State::kDetached), extra_wait_(extra_wait) {}

  bool is_off() const { return state_ == State::kOff; }
  // A drafter knows the sequence, and the next plan goes to the same one.
  bool is_attached() const { return state_ != State::kOff && state_ != State::kDetached; }
  // The round under way must wait for its draft until deadline().
  bool holds_round() const { return state_ == State::kAwaiting && deadline_ != Time::max(); }
  // When the round goes on with what has arrived. REQUIRES: holds_round().
  Time deadline() const { return deadline_; }
  // Whether a drafter may be asked for this round.
  bool is_rested(uint32_t round) const { return !is_off() && round >= rest_until_; }

  // The draft that the next step scores; empty: none.
  const DraftTree& draft() const { return draft_; }
  // The draft is from the verifier's own proposers.
  bool is_local() const { return is_local_; }
  // The request's grammar forces the draft.
  bool is_forced() const { return is_forced_; }
  // The last plan for a drafter, and when it was sent.
  const DraftPlan& plan() const { return plan_; }
  Time plan_sent() const { return plan_sent_; }
  // A drafter was asked for this round, and the round waited or waits for it.
  bool was_asked() const { return was_asked_; }
  // A drafter was asked for this round only to be timed; its draft is not used.
  bool is_unawaited() const { return is_unawaited_; }

  // Decides this round without a drafter: on the verifier's own draft or, if `draft` is empty, as a
  // plain round.
  void UseOwnDraft(DraftTree draft, bool is_forced = false);
  // What the drafter has to be told with its next plan. REQUIRES: is_attached().
  SessionVerdict Decision(uint64_t session, const DraftPlan& plan) const;
  // A drafter got `plan` for this round. If `round_waits` is false, the round goes on although a
  // draft may come. A plan with a timeout of zero is not waited for, and the sequence rests.
  void Await(const DraftPlan& plan, const DraftTimeout& timeout, bool round_waits, Time now);
  // The plan under way leaves only now, after the work on other sessions, which does not count.
  void MarkSent(Time now);
  // Restarts the wait: the time in which the verifier still computed the text does not count.
  void Postpone(Time now);

  // Whether a draft of `round` would still be scored.
  bool Expects(uint32_t round) const { return state_ == State::kAwaiting && plan_.round == round; }
  // Takes the part of the draft that has arrived. A round that does not wait for the draft scores
  // what there is when its step begins. REQUIRES: Expects its round.
  void TakePart(const DraftTree& part) { (holds_round() ? partial_ : draft_) = part; }
  // Takes the whole draft. REQUIRES: Expects its round.
  void TakeDraft(const DraftTree& draft, Time now);
  // The deadline has passed: the round goes on with what has arrived. An incomplete draft counts as
  // missed. REQUIRES: holds_round().
  void Expire(Time now);

  // The drafter is gone. What has arrived of its draft is scored. The next drafter starts without
  // missed drafts, unless `round`, the one under way, was waiting for this one.
  void MarkLost(uint32_t round);
  // The drafter is attached but does not take the sequence.
  void MarkRefused(uint32_t round);
  // The drafter was suspended and is on time again, so it may be asked at once.
  void EndRest();
  // The sequence was closed at its drafter so that another can take it.
  void Detach();
  void TurnOff() { state_ = State::kOff; }

  // The round is decided: `node` of its draft was accepted, and `emitted` are the tokens up to it
  // and the one after it. `acceptance`: of the nodes of a drafter's draft, for a drafter that
  // learns from it; see SessionVerdict.
  void EndRound(int node, std::span<const TokenId> emitted, std::string acceptance = {});

 private:
  enum class State {
    kOff,
    kDetached,  // no drafter holds the sequence
    kAwaiting,  // a plan is under way
    kArrived,   // its draft, or the part of it that came in time, has arrived
    kIdle,      // a drafter holds the sequence, but no plan is under way
  };
  // What happened since the drafter's last draft.
  struct Untold {
    int node = 0;                 // of that draft; the path to it was accepted
    std::vector<TokenId> tokens;  // tokens after it
    std::string acceptance;
  };

  // Makes no plan for a while: twice as long with every missed draft in a row, so that a drafter
  // that cannot keep up costs little.
  void Rest(uint32_t round);
  void SpendExtraWait(Time now);

  State state_ = State::kOff;
  DraftPlan plan_;
  Time plan_sent_;
  Time waits_since_;       // since when only the draft is missing
  Time deadline_;          // Time::max(): the round does not wait
  Duration timeout_{};     // the usual wait for such a draft
  Duration extra_wait_{};  // remaining extra wait
  bool was_asked_ = false;
  bool is_unawaited_ = false;
  DraftTree partial_;  // kAwaiting: the part of the draft that has arrived
  DraftTree draft_;
  bool is_local_ = false;
  bool is_forced_ = false;
  Untold untold_;
  int missed_ = 0;  // missed drafts in a row
  uint32_t rest_until_ = 0;
};

}  // namespace outrider
