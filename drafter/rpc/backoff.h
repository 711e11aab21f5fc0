// The pause before dialling again: none after the first failure, then a random part of a bound that
// doubles ("full jitter", so that drafters that lost the same verifier do not return at once).
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
  // Call after a lasting attachment: the next failure counts as the first.
  void Reset() { failures_ = 0; }

 private:
  const Duration max_;
  int failures_ = 0;
  std::mt19937_64 random_;
};

}  // namespace outrider
