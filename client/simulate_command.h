// outrider simulate: what simulate.h and simulate_control.h compute, printed.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

Status RunSimulateCommand(const SimulateFlags& flags, const Console& console);
Status RunSimulateControlCommand(const SimulateControlFlags& flags, const Console& console);

}  // namespace outrider
