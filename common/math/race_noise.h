// The noise of the exponential race (common/spec/race.h): E_x ~ Exp(1) for each token x, a function
// of (seed, position, token) alone, in tiles of 256 tokens. Shared by host and device.
#pragma once

#include <cmath>
#include <cstdint>

#include "common/math/coins.h"
#include "common/math/host_device.h"
#include "common/math/philox.h"

namespace outrider {

// -log(1 - coin); 1 - coin is exact, as random numbers are multiples of 2^-53.
OUTRIDER_HD inline double Exponential(double coin) { return -log(1 - coin); }

// A tile's noise: the smallest of 256 Exp(1) is Exp(256), its index is uniform, and because the
// distribution is memoryless every other one is the smallest plus a new Exp(1). So a tile that
// cannot win costs one random number.
class TileNoise {
 public:
  static constexpr uint32_t kTile = 256;

  OUTRIDER_HD TileNoise(uint64_t seed, uint32_t position, uint32_t tile)
      : seed_(seed),
        position_(position),
        bits_(Philox({{position, tile, static_cast<uint32_t>(Purpose::kRace), 0}},
                     static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32))),
        least_at_(tile * kTile + bits_.word[2] % kTile) {}

  // The token with the smallest noise; may be beyond the end of the vocabulary.
  OUTRIDER_HD uint32_t least_at() const { return least_at_; }
  // At most least(), without a logarithm.
  OUTRIDER_HD double bound() const { return UnitInterval(bits_) / kTile; }
  OUTRIDER_HD double least() const { return Exponential(UnitInterval(bits_)) / kTile; }
  // E of a token of the tile, or a larger value if it is above `limit` (which saves a logarithm,
  // because the random number itself is a lower bound).
  OUTRIDER_HD double Of(uint32_t token, double least, double limit = INFINITY) const {
    if (token == least_at_) return least;
    const double coin = Coin(seed_, position_, token, Purpose::kRace, 1);
    return least + coin > limit ? static_cast<double>(INFINITY) : least + Exponential(coin);
  }

 private:
  uint64_t seed_;
  uint32_t position_;
  PhiloxBlock bits_;
  uint32_t least_at_;
};

}  // namespace outrider
