// Tells whether floats are numbers to compute with.
//
// Thread: any.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

namespace outrider {

// Whether no value is NaN or infinite.
inline bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

}  // namespace outrider
