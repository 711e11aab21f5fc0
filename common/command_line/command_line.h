// Command lines and flag files as all of our programs read them: CLI11, with errors that name the
// word that is wrong and the known one nearest to it, and numbers that are numbers.
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

// Parses the command line, then runs `check` on what came out. An int: the program's exit code
// (--help and --version: 0, on `out`; anything wrong: 2, told on `err`).
std::optional<int> ParseCommandLine(CLI::App& app, int argc, const char* const* argv,
                                    std::ostream& out, std::ostream& err,
                                    const std::function<Status()>& check = nullptr);

// --config (or --flagfile): a file of one flag=value a line. A key that is no flag of `app` is
// an error.
void AddConfigFlag(CLI::App& app);

// Checks of flags that are numbers. NaN and infinities, which CLI11's own let pass, fail all of
// them. The bounds are inclusive, but for Above.
CLI::Validator AtLeast(double low);
CLI::Validator Above(double low);
CLI::Validator Between(double low, double high);

// The word of `known` with the fewest changes to `word` (a letter added, left out, replaced, or two
// neighbours swapped); "" when none is close enough to have been meant.
std::string Nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace outrider
