#include "common/base/periodic.h"

#include <gtest/gtest.h>

#include <chrono>
#include <semaphore>

namespace outrider {
namespace {

TEST(Periodic, CallsOncePerPeriod) {
  constexpr Duration kPeriod = std::chrono::milliseconds(10);
  std::counting_semaphore<> calls(0);
  const Time started = SteadyClock().Now();
  const Periodic periodic(kPeriod, [&] { calls.release(); });
  for (int i = 0; i < 3; ++i) calls.acquire();
  EXPECT_GE(SteadyClock().Now() - started, 2 * kPeriod);
}

TEST(Periodic, EndsWithinItsPeriod) {
  int calls = 0;
  {
    std::binary_semaphore called(0);
    const Periodic periodic(std::chrono::hours(24), [&] {
      ++calls;
      called.release();
    });
    called.acquire();
  }
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace outrider
