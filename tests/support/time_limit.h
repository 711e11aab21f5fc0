// How long tests wait for what must happen.
#pragma once

#include <chrono>

namespace outrider::testing {

// Only a test that fails waits so long, however busy the machine is. Below the TIMEOUT of a test
// (cmake/OutriderTargets.cmake), so that it can still say what it waited for.
constexpr std::chrono::seconds kTimeLimit{300};

}  // namespace outrider::testing
