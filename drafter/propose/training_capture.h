// Makes training examples for an acceptance head from verdicts: the hidden state of each computed
// draft token, with the probability that it is accepted.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <cstdint>
#include <optional>

#include "drafter/propose/head_recorder.h"
#include "drafter/propose/held_session.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

class TrainingCapture {
 public:
  // `recorder` may be nullptr: nothing is recorded. It must outlive this.
  TrainingCapture(HeadRecorder* recorder, int hidden_size)
      : recorder_(recorder), hidden_size_(hidden_size) {}

  // PromptId of a recorded session. `session` was made from `open`, within `limits`.
  std::optional<uint64_t> PromptToRecord(const SessionOpening& open, const DraftSession& session,
                                         const DraftDistributionLimits& limits) const;
  // Records a verdict on the session's draft, before it is applied.
  void OnVerdict(const HeldSession& held, const SessionVerdict& verdict) const;

 private:
  HeadRecorder* const recorder_;
  const int hidden_size_;
};

}  // namespace outrider
