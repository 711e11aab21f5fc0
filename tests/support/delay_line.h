// One direction of a delayed connection: bytes with the times at which they may be forwarded. Pure:
// the time is an argument, so that tests need no clock.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"

namespace outrider::testing {

// How a path treats the bytes of one direction.
struct PathDistribution {
  Duration delay{};                                 // of every byte
  double loss = 0;                                  // per segment, 0 to 1
  Duration stall = std::chrono::milliseconds(200);  // delay of a lost segment
};

class DelayLine {
 public:
  static constexpr size_t kSegmentBytes = 1448;  // on Ethernet with TCP timestamps
  static constexpr size_t kLimitBytes = 1 << 20;

  explicit DelayLine(uint64_t seed) : coin_(seed) {}

  // Whether there is no room for more; the reader of a full line waits, and so its peer does, too.
  bool full() const { return held_ >= kLimitBytes; }
  bool empty() const { return chunks_.empty(); }
  size_t held() const { return held_; }
  int stalls() const { return stalls_; }

  // Order is kept: nothing is due before bytes that were pushed earlier.
  void Push(std::string bytes, const PathDistribution& distribution, Time now) {
    const double segments = std::ceil(static_cast<double>(bytes.size()) / kSegmentBytes);
    Time due = now + distribution.delay;
    if (distribution.loss > 0 &&
        std::bernoulli_distribution(1 - std::pow(1 - distribution.loss, segments))(coin_)) {
      due += distribution.stall;
      ++stalls_;
    }
    if (!chunks_.empty()) due = std::max(due, chunks_.back().due);
    held_ += bytes.size();
    chunks_.push_back({due, std::move(bytes), 0});
  }

  // When the first bytes may be forwarded; max() if there are none.
  Time due() const { return chunks_.empty() ? Time::max() : chunks_.front().due; }
  // The rest of the first chunk. An empty one (pushed at the end of a stream) means the end.
  std::string_view front() const {
    return std::string_view(chunks_.front().bytes).substr(chunks_.front().sent);
  }
  void Pop(size_t bytes) {
    held_ -= bytes;
    chunks_.front().sent += bytes;
    if (chunks_.front().sent == chunks_.front().bytes.size()) chunks_.pop_front();
  }

 private:
  struct Chunk {
    Time due;
    std::string bytes;
    size_t sent;
  };
  std::mt19937_64 coin_;
  std::deque<Chunk> chunks_;
  size_t held_ = 0;
  int stalls_ = 0;
};

}  // namespace outrider::testing
