// The exact acceptance of sample-and-match: two distributions race with the same exponential noise
// (common/spec/race.h), and a draft token is accepted if it wins the target's race.
//
// Thread: any; no state.
#pragma once

#include <span>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// [vocab] out[x] = Pr(x wins the target's race and is among the first `count` to arrive in the
// draft's). For count = 1: 1 / sum_y max(p(y) / p(x), q(y) / q(x)).
std::vector<double> RaceMatchDistribution(std::span<const double> target,
                                          std::span<const double> draft, int count);

// For count > 1 the arrival time of x is integrated out for every set of fewer than `count` tokens
// that may arrive before it. kInvalidArgument: there are too many such sets.
Status CheckRaceCost(int vocab, int count);

}  // namespace outrider
