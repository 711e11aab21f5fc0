// Decides by trial whether lookahead drafting pays: rounds are timed in blocks with and without it,
// and neighbouring blocks are compared. Both its benefit (drafts that are ready when the verdict
// comes) and its cost (a verdict that waits for the end of a pass, a core that others could use)
// show in the time of a round, whatever their cause.
//
// Thread: the drafting loop.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace outrider {

class AheadGate {
 public:
  bool open() const { return open_; }

  // Records the time of a session's round, from one complete draft to the next.
  void OnRound(double seconds) {
    block_[count_++] = seconds;
    if (count_ < block_.size()) return;
    count_ = 0;
    const double time = BlockTime();
    if (blocks_ > 0 && was_open_ != open_) {
      OnComparison(std::log(open_ ? before_ / time : time / before_));
    }
    before_ = time;
    was_open_ = open_;
    ++blocks_;
    if (blocks_ == kFirst) alternates_ = false;
    const bool look = alternates_ ? blocks_ % 2 == 1 : blocks_ % kLook == 0;
    open_ = (gain_ >= 0) != look;
  }

 private:
  static constexpr double kMemory = 8;  // comparisons
  static constexpr int kFirst = 8, kLook = 8;
  static constexpr int kAgreeing = 3;
  static constexpr double kClear = 0.1;

  void OnComparison(double gain) {
    gain_ += (gain - gain_) / std::min(++comparisons_, kMemory);
    if (!alternates_) return;
    // A busy block touches two neighbouring comparisons, so three that agree decide.
    const bool is_clear = std::abs(gain) > kClear;
    if (!is_clear || gain * agreed_ < 0) agreed_ = agreeing_ = 0;
    if (!is_clear) return;
    agreed_ += gain;
    if (++agreeing_ < kAgreeing) return;
    alternates_ = false;
    gain_ = agreed_ / kAgreeing;  // without what contradicts them
    comparisons_ = kAgreeing;
  }

  // The mean without the slowest eighth, because one scheduling delay weighs as much as a hundred
  // rounds.
  double BlockTime() {
    std::sort(block_.begin(), block_.end());
    constexpr size_t kKept = std::tuple_size_v<decltype(block_)> / 8 * 7;
    double sum = 0;
    for (size_t i = 0; i < kKept; ++i) sum += block_[i];
    return std::max(sum / static_cast<double>(kKept), 1e-9);
  }

  bool open_ = true;
  std::array<double, 32> block_{};
  size_t count_ = 0;
  int blocks_ = 0;
  bool was_open_ = false;
  double before_ = 0;  // time of the last block
  double gain_ = 0;    // log of the time without over the time with it
  double comparisons_ = 0;
  double agreed_ = 0;  // sum of the last comparisons, clear and of one sign
  int agreeing_ = 0;
  // Until three comparisons in a row agree clearly, or kFirst blocks are over; then it uses the
  // better way and tests the other now and then.
  bool alternates_ = true;
};

}  // namespace outrider
