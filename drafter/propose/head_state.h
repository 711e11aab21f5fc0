// The acceptance head at work: its predictions, corrected by what verdicts tell, and the threshold
// at which stopping pays at the speed that the sessions really have.
//
// The threshold is the drafter's because all that it follows from is measured here: the time of a
// pass, the rounds with their waiting, the acceptance. A plan may bring one of its own.
//
// Everything here depends on rounds that are over and on clocks, never on a draw to come.
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

  // The chance of each token whose last hidden state is a row of `hidden` [rows, hidden_size].
  std::vector<float> Predict(std::span<const float> hidden) const;

  // A token of predicted chance `predicted` was accepted with probability `actual`. One step of
  // gradient descent on the cross-entropy over the bias alone.
  void Learn(float predicted, float actual);
  float bias() const { return bias_; }

  // A pass that drew took this long.
  void OnPass(double seconds);
  // A session's round, verdict to verdict, brought this many tokens.
  void OnRound(int tokens, double seconds);

  // PayingThreshold of a pass at the speed and the acceptance seen; kFirstHeadThreshold until there
  // is enough to go by.
  float threshold() const;

  static constexpr float kMaxBias = 2.f;

 private:
  // A mean over the last few hundred, a ratio of sums.
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
