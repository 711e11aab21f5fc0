// Philox 4x32-10, the counter-based generator of Salmon et al. 2011 ("Parallel random numbers: as
// easy as 1, 2, 3"): 128 random bits as a pure function of a 128-bit counter and a 64-bit key.
#pragma once

#include <cstdint>

#include "common/math/host_device.h"

namespace outrider {

struct PhiloxBlock {
  uint32_t word[4];
};

OUTRIDER_HD inline PhiloxBlock Philox(PhiloxBlock counter, uint32_t key0, uint32_t key1) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53u, kMultiplier1 = 0xCD9E8D57u;
  constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kMultiplier0 * counter.word[0];
    const uint64_t b = kMultiplier1 * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// The first 53 bits of a block as a double in [0, 1).
OUTRIDER_HD inline double UnitInterval(const PhiloxBlock& block) {
  const uint64_t bits = (static_cast<uint64_t>(block.word[0]) << 32) | block.word[1];
  return static_cast<double>(bits >> 11) * (1.0 / 9007199254740992.0);
}

}  // namespace outrider
