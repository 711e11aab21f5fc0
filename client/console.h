// Where a command writes: the process's own streams, or strings in a test.
#pragma once

#include <istream>
#include <ostream>

namespace outrider {

struct Console {
  std::istream& in;
  std::ostream& out;  // results
  std::ostream& err;  // statistics, progress, errors
  bool err_is_terminal = false;
  bool colour = false;           // out is a terminal with colours, and NO_COLOR is not set
  bool out_is_terminal = false;  // that obeys escape sequences
};

}  // namespace outrider
