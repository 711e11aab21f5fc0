// Addresses as flags name them.
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// kInvalidArgument when the address ends in ":number" with a number above 65535, which a resolver
// would take modulo 65536. Everything else is the resolver's to judge.
Status CheckPort(const std::string& address);

}  // namespace outrider
