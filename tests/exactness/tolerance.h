// The largest difference between two sums of the same probabilities in different orders.
#pragma once

namespace outrider {

inline constexpr double kTolerance = 1e-12;

}  // namespace outrider
