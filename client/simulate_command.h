// outrider simulate: what simulate.h computes, printed.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

Status RunSimulateCommand(const SimulateFlags& flags, const Console& console);

}  // namespace outrider
