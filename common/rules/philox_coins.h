// The uniform random numbers of a round in production, keyed by (seed, round, depth, purpose,
// trial).
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/math/accept.h"
#include "common/math/coins.h"
#include "common/math/host_device.h"
#include "common/math/residual_draw.h"

namespace outrider {

class PhiloxCoins {
 public:
  OUTRIDER_HD PhiloxCoins(uint64_t seed, uint32_t round) : seed_(seed), round_(round) {}

  // Random numbers are in [0, 1), so with "<" probability 0 never passes and probability 1 always
  // does.
  OUTRIDER_HD bool Flip(Purpose purpose, int depth, int trial, double probability) const {
    return Coin(seed_, round_, static_cast<uint32_t>(depth), purpose,
                static_cast<uint32_t>(trial)) < probability;
  }
  TokenId Next(int depth, const ResidualRow<float>& distribution) const {
    return DrawResidual(distribution,
                        Coin(seed_, round_, static_cast<uint32_t>(depth), Purpose::kNextToken));
  }
  TokenId Next(int depth, const ResidualRow<double>& distribution) const {
    return distribution.Draw(
        Coin(seed_, round_, static_cast<uint32_t>(depth), Purpose::kNextToken));
  }

 private:
  uint64_t seed_;
  uint32_t round_;
};

}  // namespace outrider
