// Updates the acceptance head's state, if there is one, from the time of forward passes, and from
// verdicts on its predictions and the sessions' speed. HeadState holds what is learned.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "common/base/clock.h"
#include "common/model/acceptance_head.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/head_state.h"
#include "drafter/propose/held_session.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

class HeadLearner {
 public:
  // `head` may be nullptr: nothing is learned. Both must outlive it.
  HeadLearner(const AcceptanceHead* head, DraftObservers* observers) : observers_(observers) {
    if (head != nullptr) state_.emplace(head);
  }
  HeadLearner(const HeadLearner&) = delete;
  HeadLearner& operator=(const HeadLearner&) = delete;

  // nullptr: there is no head.
  const HeadState* state() const { return state_.has_value() ? &*state_ : nullptr; }
  // The acceptance probability of each token whose last hidden state is a row of `states` [rows,
  // hidden_size]. REQUIRES: state() is not nullptr.
  std::vector<float> Predict(std::span<const float> states) const {
    return state_->Predict(states);
  }

  // Records the time of a pass that drafted and read no prompt.
  void OnPass(double seconds);
  // Learns from a verdict on the session's draft, before it is applied.
  void OnVerdict(HeldSession& held, const SessionVerdict& verdict, Time now);

 private:
  DraftObservers* const observers_;
  std::optional<HeadState> state_;
};

}  // namespace outrider
