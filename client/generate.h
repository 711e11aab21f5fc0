// outrider generate: one request, its text as it comes.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// The exit code: 0, or 128 + the signal that interrupted it. Then what had come of the text is
// there all the same, with its figures.
Result<int> RunGenerate(const GenerateOptions& options, const Console& console);

}  // namespace outrider
