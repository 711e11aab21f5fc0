// How long tests wait for what must happen.
#pragma once

#include <chrono>
#include <thread>

namespace outrider::testing {

// Only a test that fails waits so long, however busy the machine is. Below the TIMEOUT of a test
// (cmake/OutriderTargets.cmake), so that it can still say what it waited for.
constexpr std::chrono::seconds kTimeLimit{300};

// Waits until `condition()` holds, for kTimeLimit at most; returns false if it never did.
template <class Condition>
bool Await(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + kTimeLimit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace outrider::testing
