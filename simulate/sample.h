// The figures of `outrider simulate` without --exact: samples generations one by one, each with its
// own seed and with random numbers keyed as in production.
//
// Thread: any; no state.
#pragma once

#include <cstdint>

#include "simulate/figures.h"

namespace outrider {

// Rules run on rows of doubles, as in the pair. Gumbel has float rows, because the race only exists
// for these. With `wire`, the draft distributions are integers, the target's are float, and the
// engine's own entry point to the rules verifies (except for greedy-block, which the engine does
// not have).
// REQUIRES: generations >= 1; with wire, RoundToIntegers has rounded the pair's draft.
SimulationFigures SampleFigures(const Simulation& simulation, int64_t generations, uint64_t seed,
                                bool wire);

}  // namespace outrider
