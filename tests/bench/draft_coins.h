// Synthetic acceptance: a random number for each position of a session's text decides whether its
// draft token is accepted, so that every decoder of the same load has the same rounds
// (pair_cases.py has it, too).
#pragma once

#include <cstdint>

namespace outrider {

// Whether a draft token for the text's token `position` is accepted. (Steele et al. 2014,
// "SplitMix64".)
inline bool IsDraftTokenAccepted(uint64_t seed, int session, int position, double acceptance) {
  uint64_t z = seed * 1000003 + static_cast<uint64_t>(session);
  z = (z << 32) + static_cast<uint64_t>(position);
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53 < acceptance;
}

}  // namespace outrider
