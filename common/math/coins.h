// All random numbers of both services, from a counter-based generator (Philox 4x32-10, Salmon et
// al. 2011) keyed by (seed, round, row, purpose, trial), so that none is ever used twice, in
// whatever order things run. Block verification uses random numbers beyond the last accepted token;
// if a later round used one again, rounds would be correlated and the output distribution would
// change.
#pragma once

#include <cstdint>

#include "common/math/host_device.h"
#include "common/math/philox.h"

namespace outrider {

enum class Purpose : uint32_t {
  kPlainToken = 1,  // a token sampled without a draft
  kDraftToken = 2,  // the drafter's sampling of a draft token
  kAccept = 3,      // the verifier's acceptance of a draft token
  kNextToken = 4,   // the recovered or bonus token after the accepted ones
  kTrial = 5,       // the trial of one of several candidates at a depth
  kChoice = 6,      // which of two ways to choose among the candidates at a depth
  kRace = 7,        // noise of the exponential race (race.h), keyed by position, not by round
};

// A double in [0, 1) with 53 random bits. `row`: the depth within the round, 0 for the first token.
// `trial`: the index among several random numbers at that depth.
OUTRIDER_HD inline double Coin(uint64_t seed, uint32_t round, uint32_t row, Purpose purpose,
                               uint32_t trial = 0) {
  return UnitInterval(Philox({{round, row, static_cast<uint32_t>(purpose), trial}},
                             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)));
}

}  // namespace outrider
