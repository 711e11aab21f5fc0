// outrider bench: many requests, so many at a time, and what they took.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// Reports in any case; the status is the first failed request's.
Status RunBench(const BenchOptions& options, const Console& console);

}  // namespace outrider
