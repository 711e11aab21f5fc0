// outrider bench: sends many requests, some at a time, and reports their times.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// Reports in any case; the error is the first failed request's. Returns the exit code: 0, or 128 +
// the signal that interrupted it, after reporting what was measured until then.
Result<int> RunBench(const BenchOptions& options, const Console& console);

}  // namespace outrider
