// Time as a dependency: engines take a Clock, so that tests step it by hand.
#pragma once

#include <chrono>

namespace outrider {

using Duration = std::chrono::steady_clock::duration;
using Time = std::chrono::steady_clock::time_point;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Time Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  Time Now() const override { return std::chrono::steady_clock::now(); }
};

// Seconds as a double, for rates and metrics, and back.
inline double Seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration FromSeconds(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace outrider
