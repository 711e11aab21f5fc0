// Mixes the bits of a hash or of a counter: SplitMix64 (Steele, Lea and Flood 2014, "Fast
// splittable pseudorandom number generators"). For tables, rendezvous hashing and simulations. What
// decides on tokens comes from common/math/coins.h.
//
// Thread: any.
#pragma once

#include <cstdint>

namespace outrider {

// What SplitMix64 adds to its state before each output.
inline constexpr uint64_t kSplitMixStep = 0x9E3779B97F4A7C15u;

// Its output function, a bijection: every bit of the result depends on every bit of `x`.
inline uint64_t MixBits(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The generator's output after the state `x`.
inline uint64_t SplitMix(uint64_t x) { return MixBits(x + kSplitMixStep); }

// In [0, 1), from the 53 highest bits.
inline double UnitOf(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace outrider
