// The outrider command, from its arguments to its exit code.
#pragma once

#include "client/console.h"

namespace outrider {

// 0: success; 1: an error, also of writing to console.out, reported in one line on console.err; 2:
// a usage error; 128 + the signal that interrupted it.
int RunCommandLine(int argc, const char* const* argv, const Console& console);

}  // namespace outrider
