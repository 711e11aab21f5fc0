#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

#include "client/command_line.h"
#include "common/rpc/library_logs.h"

namespace {

// Whether stdout is a terminal that obeys escape sequences.
bool IsTerminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

// https://no-color.org: any non-empty value disables colours.
bool TakesColour() {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && IsTerminal();
}

}  // namespace

int main(int argc, char** argv) {
  const outrider::Console console{.in = std::cin,
                                  .out = std::cout,
                                  .err = std::cerr,
                                  .err_is_terminal = isatty(STDERR_FILENO) != 0,
                                  .colour = TakesColour(),
                                  .out_is_terminal = IsTerminal()};
  outrider::TakeLibraryLogs();
  return outrider::RunCommandLine(argc, argv, console);
}
