// The pause before dialling again: a random part of a bound that doubles with each failure ("full
// jitter", so that drafters that lost the same verifier do not return at once).
//
// Thread: one owner.
#pragma once

#include <cstdint>
#include <random>

#include "common/base/clock.h"

namespace outrider {

class Backoff {
 public:
  struct Bounds {
    Duration first = std::chrono::milliseconds(100);
    Duration last = std::chrono::seconds(2);
    bool first_at_once = true;  // no pause after the first failure
  };

  Backoff(const Bounds& bounds, uint64_t seed) : bounds_(bounds), random_(seed) {}

  // The pause before the next dial.
  Duration Next();
  // Call after a lasting attachment: the next failure counts as the first.
  void Reset() { failures_ = 0; }

 private:
  const Bounds bounds_;
  int failures_ = 0;
  std::mt19937_64 random_;
};

}  // namespace outrider
