// The outrider-simulate command, from its arguments to its exit code: prints what simulate.h and
// control.h compute.
//
// Thread: main.
#pragma once

#include <ostream>

namespace outrider {

// 0: success; 1: an error, reported in one line on `err`; 2: a usage error.
int RunSimulateCommandLine(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace outrider
