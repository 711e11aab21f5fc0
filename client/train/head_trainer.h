// Trains an acceptance head by Adam on the weighted cross-entropy, with a learning rate that falls
// to 0 along a cosine. Deterministic: an epoch depends on the seed and its number, so a training
// that was saved and loaded ends at the same head.
//
// Thread: one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <vector>

#include "client/train/head_loss.h"
#include "common/base/status.h"
#include "common/math/residual_mlp.h"

namespace outrider {

struct HeadTraining {
  int depth = 1;
  int epochs = 10;
  int batch = 256;
  double learning_rate = 1e-3;
  // Weight of rejections; 3 to 12 as published. It lowers the minimiser's logit by its logarithm,
  // which Finish() adds again, so that the head predicts a probability.
  float rejection_weight = 6.f;
  uint64_t seed = 1;
};

// The bytes that HeadTrainer::Save writes: three numbers, the parameters and two moments of each.
constexpr size_t HeadStateBytes(int width, int depth) {
  return 3 * sizeof(uint64_t) + 3 * sizeof(float) * ResidualMlpSize(width, depth);
}

// The error of a training whose parameters, loss or predictions are not finite any more.
Status TrainingDiverged();

class HeadTrainer {
 public:
  // Initialises weights and biases uniformly in +-1 / sqrt(width), as the published code does.
  HeadTrainer(int width, const HeadTraining& training);

  int epoch() const { return epoch_; }  // completed epochs
  bool done() const { return epoch_ >= training_.epochs; }
  // One pass over the examples in the epoch's own order; returns the mean weighted loss.
  // kFailedPrecondition: the training has diverged.
  Result<double> RunEpoch(const HeadExamples& examples);
  // The present head, calibrated.
  AcceptanceHead Finish() const;

  // The state between two epochs. Load returns kDataLoss if it is not a state of the same training.
  void Save(std::ostream& out) const;
  Status Load(std::istream& in);

 private:
  void Step(std::vector<float>& gradient, size_t total_steps);

  const HeadTraining training_;
  AcceptanceHead head_;
  std::vector<float> first_, second_;  // Adam's moments
  int epoch_ = 0;
  uint64_t step_ = 0;
};

}  // namespace outrider
