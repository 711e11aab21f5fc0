// outrider generate: sends one request and prints its text as it arrives.
#pragma once

#include "client/console.h"
#include "client/options.h"
#include "common/base/status.h"

namespace outrider {

// Returns the exit code: 0, or 128 + the signal that interrupted it, after printing the text so far
// and its figures.
Result<int> RunGenerate(const GenerateOptions& options, const Console& console);

}  // namespace outrider
