// The figures of `outrider simulate --exact`: rounds enumerated one behind the other.
//
// Thread: any; no state.
#pragma once

#include "common/base/status.h"
#include "simulate/figures.h"

namespace outrider {

// kInvalidArgument if there is too much to enumerate. Known beforehand, but for greedy-block: what
// it carries from round to round makes rounds of their own, counted as they are met.
Result<SimulationFigures> ExactFigures(const Simulation& simulation);

}  // namespace outrider
