// Parses command lines and flag files for all our programs: CLI11, with errors that name the wrong
// word and the nearest known one, and strict numbers.
//
// Thread: main.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's
class App;
class Validator;
}  // namespace CLI

namespace outrider {

// Parses the command line, then calls `check`. A number of an option that takes integers has
// decimal digits only and fits its type; in a list, each element is one. Returns the program's exit
// code if it should end (--help and --version: 0, on `out`; an error: 2, on `err`).
std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv,
                                    std::ostream& out, std::ostream& err,
                                    const std::function<Status()>& check = nullptr);

// Flushes what a program has written to `out`. Returns its exit code: 1 instead of 0, with an error
// on `err`, if not all of it could be written.
int CheckWritten(int exit_code, std::ostream& out, std::ostream& err);

// --config (or --flagfile): a file with one flag=value per line. A key that is not a flag of `app`
// is an error.
void AddConfigFlag(CLI::App& app);

// Checks of numeric flags. NaN and infinities, which CLI11's own checks accept, fail all of them.
// The bounds are inclusive, except in Above.
CLI::Validator AtLeast(double low);
CLI::Validator Above(double low);
CLI::Validator Between(double low, double high);

// The word of `known` with the fewest changes to `word` (a letter added, removed, replaced, or two
// neighbours swapped); "" if none is close enough.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace outrider
