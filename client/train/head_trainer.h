// Trains an acceptance head by Adam on the weighted cross-entropy, the learning rate falling to 0
// along a cosine. Deterministic: what an epoch does follows from the seed and its number, so that a
// training that was saved and loaded ends at the very same head.
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <vector>

#include "client/train/head_loss.h"
#include "common/base/status.h"

namespace outrider {

struct HeadTraining {
  int depth = 1;
  int epochs = 10;
  int batch = 256;
  double learning_rate = 1e-3;
  // Published: 3 to 12 weigh rejections more. The minimiser's logit is lower by its logarithm then,
  // which Finish() adds again: the head's word is a probability.
  float rejection_weight = 6.f;
  uint64_t seed = 1;
};

class HeadTrainer {
 public:
  // Weights and biases uniform in +-1 / sqrt(width), as the published code leaves them.
  HeadTrainer(int width, const HeadTraining& training);

  int epoch() const { return epoch_; }  // epochs done
  bool done() const { return epoch_ >= training_.epochs; }
  // One pass over the examples in the epoch's own order; the mean weighted loss.
  double RunEpoch(const HeadExamples& examples);
  // The head as it is now, calibrated.
  AcceptanceHead Finish() const;

  // The state between two epochs. Load: kDataLoss when it is not a state of the same training.
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
