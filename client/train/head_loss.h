// The loss of an acceptance head on examples, its gradient, and the quality of its predictions.
//
// Thread: any; no state.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "common/model/acceptance_head.h"

namespace outrider {

// Draft tokens: the draft model's last hidden state of each, and the probability that the target
// accepts it, min(1, p / q).
struct HeadExamples {
  int width = 0;
  std::vector<float> hidden;  // [size, width]
  std::vector<float> labels;  // [size]

  size_t size() const { return labels.size(); }
  std::span<const float> row(size_t i) const {
    return std::span(hidden).subspan(i * static_cast<size_t>(width), static_cast<size_t>(width));
  }
};

// Returns - P log s - w (1 - P) log(1 - s) for prediction s and label P (SpecDec++, section 3.2),
// and adds its gradient times `scale` to `gradient` [parameters].
double AddHeadGradient(const AcceptanceHead& head, std::span<const float> hidden, float label,
                       float rejection_weight, float scale, std::span<float> gradient);

struct HeadReport {
  double loss = 0;          // mean cross-entropy, unweighted
  double loss_of_mean = 0;  // of a head that always predicts the mean label
  double ece = 0;           // expected calibration error, ten bins of equal width
  // A label P counts as an accepted token of weight P and a rejected one of weight 1 - P: the
  // probability that a random accepted one has the higher prediction (ties count half).
  double auc = 0;
};

// `predictions` and `labels`: [size >= 1]. nullopt: a prediction is not finite, as of a head whose
// logit overflows.
std::optional<HeadReport> Evaluate(std::span<const float> predictions,
                                   std::span<const float> labels);
std::optional<HeadReport> Evaluate(const AcceptanceHead& head, const HeadExamples& examples);

}  // namespace outrider
