// A clock that the test advances.
#pragma once

#include "common/base/clock.h"

namespace outrider::testing {

class FakeClock final : public Clock {
 public:
  Time Now() const override { return now_; }
  void Advance(Duration by) { now_ += by; }

 private:
  Time now_{std::chrono::seconds(1000)};
};

}  // namespace outrider::testing
