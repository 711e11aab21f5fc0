// What a time usually is: the median of its last five measurements. A stall of the machine, as
// processes that have just started have them, does not move it; a change does after three. Two
// stalls in five do not show in it either: it is no mean.
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

  // A time that is known to be `seconds` at least says nothing where that is not above the median.
  void AddAtLeast(double seconds) {
    if (seconds > Get().value_or(0)) Add(seconds);
  }

  // How many measurements there were, ever.
  uint64_t count() const { return added_; }
  // Of an even number of measurements the lower one in the middle; nullopt without any.
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
