// Checks addresses in flags.
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// kInvalidArgument if the address ends in ":number" with a number above 65535, which a resolver
// would take modulo 65536. The resolver checks the rest.
Status CheckPort(const std::string& address);

}  // namespace outrider
