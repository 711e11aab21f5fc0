// The acceptance head in use: its predictions, corrected by verdicts, and the threshold at which
// stopping pays at the sessions' actual speed.
//
// The drafter computes the threshold because it measures its inputs: the time of a pass, the rounds
// including their waits, the acceptance. A plan may bring its own.
//
// Everything here depends on past rounds and on clocks, never on a future sample.
//
// Thread: the drafting loop.
#pragma once

#include <span>
#include <vector>

#include "common/model/acceptance_head.h"

namespace outrider {

class HeadState {
 public:
  // `head` must outlive it.
  explicit HeadState(const AcceptanceHead* head) : head_(head) {}

  // The acceptance probability of each token whose last hidden state is a row of `hidden` [rows,
  // hidden_size].
  std::vector<float> Predict(std::span<const float> hidden) const;

  // A token of predicted probability `predicted` was accepted with probability `actual`. Makes one
  // step of gradient descent on the cross-entropy, over the bias alone.
  void Learn(float predicted, float actual);
  float bias() const { return bias_; }

  // Records the time of a pass that drafted.
  void OnPass(double seconds);
  // Records a session's round, verdict to verdict, and its tokens.
  void OnRound(int tokens, double seconds);

  // PayingThreshold of a pass at the observed speed and acceptance; kFirstHeadThreshold until
  // enough has been observed.
  float threshold() const;

  static constexpr float kMaxBias = 2.f;

 private:
  // A mean over the last few hundred, as a ratio of sums.
  struct Mean {
    double sum = 0, weight = 0;
    int count = 0;
    void Add(double value, double by = 1) {
      constexpr double kKept = 1 - 1. / 256;
      sum = sum * kKept + value;
      weight = weight * kKept + by;
      ++count;
    }
    double value() const { return sum / weight; }
  };

  const AcceptanceHead* head_;
  float bias_ = 0.f;
  Mean pass_seconds_;
  Mean tokens_per_second_;
  Mean acceptance_;
};

}  // namespace outrider
