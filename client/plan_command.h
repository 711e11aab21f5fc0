// outrider plan: prints what plan.h computes.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

Status RunPlan(const PlanFlags& flags, const Console& console);

}  // namespace outrider
