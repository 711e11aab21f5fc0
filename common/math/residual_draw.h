// ResidualRow::Draw at the speed of memory: one vectorised pass for the sums of the target's tiles,
// then work on the entries of the draft row and on one tile. For the host; the device has its own.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/math/accept.h"

namespace outrider {

// As distribution.Draw(coin), up to the rounding of the tiles' sums in float (relative 1e-6 of a
// tile): the same token but for coins that close to a token's border, never one of weight 0.
TokenId DrawResidual(const ResidualRow<float>& distribution, double coin);

}  // namespace outrider
