// A name of this process.
#pragma once

#include <string>

namespace outrider {

// "host:pid", which differs among processes of one network. Without a host where it has no name.
std::string HostAndPid();

}  // namespace outrider
