// Every random draw of both services, by counter (Philox 4x32-10, Salmon et al. 2011): keyed by
// (seed, round, row, purpose, trial), so that no draw is ever used twice, whatever order things run
// in. Block verification reads coins behind the last accepted token; a coin that a later round saw
// again would couple rounds and bend the output distribution.
#pragma once

#include <cstdint>

#include "common/math/host_device.h"
#include "common/math/philox.h"

namespace outrider {

enum class Purpose : uint32_t {
  kPlainToken = 1,  // a token drawn without a draft
  kDraftToken = 2,  // the drafter's draw of a draft token
  kAccept = 3,      // the verifier's coin of a draft token
  kNextToken = 4,   // the correction or bonus token behind the accepted ones
  kTrial = 5,       // the coin of one of several candidates at a depth
  kChoice = 6,      // which of two ways to choose among the candidates at a depth
  kRace = 7,        // noise of the exponential race (race.h), keyed by position, not by round
};

// A double in [0, 1), 53 random bits. `row`: the depth within the round, 0 for the first token.
// `trial`: of several draws at that depth.
OUTRIDER_HD inline double Coin(uint64_t seed, uint32_t round, uint32_t row, Purpose purpose,
                               uint32_t trial = 0) {
  return UnitInterval(Philox({{round, row, static_cast<uint32_t>(purpose), trial}},
                             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)));
}

}  // namespace outrider
