// outrider plan: what plan.h computes, printed.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

Status RunPlan(const PlanFlags& flags, const Console& console);

}  // namespace outrider
