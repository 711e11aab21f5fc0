// Reads a service's /metrics port.
#pragma once

#include <map>
#include <string>

namespace outrider::testing {

// The values by name, summed over labels; empty when nobody answers within some seconds.
std::map<std::string, double> ReadMetrics(int port);

}  // namespace outrider::testing
