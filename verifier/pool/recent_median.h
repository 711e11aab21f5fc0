// The usual value of a time: the median of its last five measurements. A stall of the machine, as
// is common when processes start, does not move it; a change does after three. Unlike a mean, it
// does not show two stalls in five either.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace outrider {

class RecentMedian {
 public:
  void Add(double seconds) {
    recent_[added_ % recent_.size()] = seconds;
    ++added_;
  }

  // Adds a time of at least `seconds`, which is ignored unless it is above the median.
  void AddAtLeast(double seconds) {
    if (seconds > Get().value_or(0)) Add(seconds);
  }

  // The number of measurements ever made.
  uint64_t count() const { return added_; }
  // For an even number of measurements the lower of the middle two; nullopt without any.
  std::optional<double> Get() const {
    if (added_ == 0) return std::nullopt;
    const size_t count = std::min<size_t>(added_, recent_.size());
    std::array<double, kRecent> sorted = recent_;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>((count - 1) / 2);
    std::nth_element(sorted.begin(), middle, sorted.begin() + static_cast<std::ptrdiff_t>(count));
    return *middle;
  }

 private:
  static constexpr size_t kRecent = 5;

  std::array<double, kRecent> recent_{};
  uint64_t added_ = 0;  // ever
};

}  // namespace outrider
