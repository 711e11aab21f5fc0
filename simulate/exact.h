// The figures of `outrider simulate --exact`: enumerates one round after another.
//
// Thread: any; no state.
#pragma once

#include "common/base/status.h"
#include "simulate/figures.h"

namespace outrider {

// kInvalidArgument if there is too much to enumerate. This is known beforehand except for
// greedy-block, whose carried state distinguishes rounds that are only counted as they occur.
Result<SimulationFigures> ExactFigures(const Simulation& simulation);

}  // namespace outrider
