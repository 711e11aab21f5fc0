// Parses the command line into options.
#pragma once

#include <variant>

#include "client/console.h"
#include "client/options.h"

namespace outrider {

// A command to run, or an exit code: 0 after --help (on console.out), 2 after a usage error (on
// console.err).
std::variant<Command, int> ParseFlags(int argc, const char* const* argv, const Console& console);

}  // namespace outrider
