// Starts programs that are installed beside the running one.
//
// Thread: main.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// Replaces this process by the program `name` from the folder of the running executable, with
// `arguments`. Returns only on failure: kNotFound if the program is not there, kUnavailable if it
// does not start.
Status ExecSibling(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace outrider
