// The figures of `outrider simulate` without --exact: generations drawn one by one, each with its
// own seed and with coins keyed as in production.
//
// Thread: any; no state.
#pragma once

#include <cstdint>

#include "simulate/figures.h"

namespace outrider {

// Rules run on rows of doubles, as they stand in the pair. Gumbel has float rows: the race is only
// there for these. With `wire`, the draft's rows are integer laws, the target's are float, and the
// engine's own entry to the rules verifies (but for greedy-block, which it does not have).
// REQUIRES: generations >= 1; with wire, the pair's draft was rounded by RoundToIntegers.
SimulationFigures SampleFigures(const Simulation& simulation, int64_t generations, uint64_t seed,
                                bool wire);

}  // namespace outrider
