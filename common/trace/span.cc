#include "common/trace/span.h"

#include <chrono>

namespace outrider {

WallAnchor WallAnchor::Now() {
  using std::chrono::nanoseconds;
  // Takes the one of several tries that was interrupted least.
  constexpr int kTries = 3;
  WallAnchor anchor;
  auto best = nanoseconds::max();
  for (int i = 0; i < kTries; ++i) {
    const Time before = std::chrono::steady_clock::now();
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const auto took = std::chrono::steady_clock::now() - before;
    if (took >= best) continue;
    best = took;
    anchor.offset_ = (nanoseconds(wall) - (before.time_since_epoch() + took / 2)).count();
  }
  return anchor;
}

uint64_t WallAnchor::Nanoseconds(Time time) const {
  const std::chrono::nanoseconds since = time.time_since_epoch();
  return static_cast<uint64_t>(since.count() + offset_);
}

}  // namespace outrider
