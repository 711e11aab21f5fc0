// Reads a service's /metrics endpoint.
#pragma once

#include <map>
#include <string>

namespace outrider::testing {

// The values by name, summed over labels; empty if there is no answer within a few seconds.
std::map<std::string, double> ReadMetrics(int port);

}  // namespace outrider::testing
