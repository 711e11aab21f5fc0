// Synthetic acceptance: a random number for each position of a session's text decides whether its
// draft token is accepted, so that every decoder of the same load has the same rounds
// (pair_cases.py has it, too).
#pragma once

#include <cstdint>

#include "common/base/mix_bits.h"

namespace outrider {

// Whether a draft token for the text's token `position` is accepted.
inline bool IsDraftTokenAccepted(uint64_t seed, int session, int position, double acceptance) {
  const uint64_t z = seed * 1000003 + static_cast<uint64_t>(session);
  return UnitOf(SplitMix((z << 32) + static_cast<uint64_t>(position))) < acceptance;
}

}  // namespace outrider
