// How far two sums of the same probabilities may be apart, which were added in different orders.
#pragma once

namespace outrider {

inline constexpr double kTolerance = 1e-12;

}  // namespace outrider
