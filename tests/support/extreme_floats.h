// Floats that are not finite.
#pragma once

#include <limits>

namespace outrider::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace outrider::testing
