// Stop rules over a whole row of probabilities.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "common/spec/stop_rule.h"

namespace outrider::testing {

// Whether a token sampled from `probs` [vocab] is the last of its path.
inline bool StopsAtRow(const StopRule& rule, std::span<const float> probs) {
  if (rule.kind == StopRule::Kind::kConfidence) {
    return StopsAtMeasure(rule, *std::max_element(probs.begin(), probs.end()));
  }
  double entropy = 0;
  for (const float p : probs) {
    if (p > 0) entropy -= static_cast<double>(p) * std::log(static_cast<double>(p));
  }
  return StopsAtMeasure(rule, static_cast<float>(entropy));
}

}  // namespace outrider::testing
