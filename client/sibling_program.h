// Programs that are installed beside the running one.
//
// Thread: main.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// Replaces this process by the program `name` in the folder of the running executable, which gets
// `arguments` and whose exit status is the process's. Returns only when that cannot be: kNotFound
// if the program is not there, kUnavailable if it does not start.
Status ExecSibling(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace outrider
