// ResidualRow::Draw at the speed of memory: one vectorised pass for the sums of the target's tiles,
// then work on the entries of the draft distribution and on one tile. For the host; devices have
// their own.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/math/accept.h"

namespace outrider {

// The same as distribution.Draw(coin), up to the rounding of the tiles' sums in float (relative
// 1e-6 of a tile): the same token unless the random number is that close to a boundary, and never
// one of weight 0.
TokenId DrawResidual(const ResidualRow<float>& distribution, double coin);

}  // namespace outrider
