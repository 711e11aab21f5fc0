// outrider status: shows the verifier, its drafters and its sessions at this moment, or again and
// again until a signal comes (--watch).
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

Status RunStatus(const StatusOptions& options, const Console& console);

}  // namespace outrider
