// The last step of an int8 product, shared by its versions so that their bits agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/kernels.h"

namespace outrider {

// Writes one row of one panel from sums[32] of (steps + 128) * weight steps.
inline void FinishInt8(const Product& product, int row, int panel, const int32_t* sums) {
  const PanelMatrix& w = *product.weights;
  const int first = panel * kPanelOutputs;
  const int count = std::min(kPanelOutputs, w.out_features() - first);
  const int32_t* offsets = w.sums() + first;
  const float* scales = w.scales() + first;
  float* y = product.y + static_cast<size_t>(row) * w.out_features() + first;
  for (int i = 0; i < count; ++i) {
    const auto steps = static_cast<float>(sums[i] - 128 * offsets[i]);
    float value = steps * (scales[i] * product.x_scales[row]);
    if (product.bias != nullptr) value += product.bias[first + i];
    y[i] = product.accumulate ? y[i] + value : value;
  }
}

}  // namespace outrider
