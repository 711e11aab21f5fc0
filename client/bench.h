// outrider bench: many requests, so many at a time, and what they took.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// Reports in any case; the error is the first failed request's. The exit code: 0, or 128 + the
// signal that interrupted it. Then what was measured until then is reported.
Result<int> RunBench(const BenchOptions& options, const Console& console);

}  // namespace outrider
