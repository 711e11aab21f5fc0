// How long to wait before dialing again: not at all after the first failure, then a random share of
// a bound that doubles ("full jitter": drafters that lost the same verifier do not return in step).
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <random>

#include "common/base/clock.h"

namespace outrider {

class Backoff {
 public:
  static constexpr Duration kBase = std::chrono::milliseconds(100);

  Backoff(Duration max, uint64_t seed) : max_(max), random_(seed) {}

  // The pause before the next dial.
  Duration Next();
  // After an attachment that lasted: the next failure is a first one.
  void Reset() { failures_ = 0; }

 private:
  const Duration max_;
  int failures_ = 0;
  std::mt19937_64 random_;
};

}  // namespace outrider
