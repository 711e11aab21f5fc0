#include "common/base/line_limiter.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

constexpr Time kStart = Time(std::chrono::hours(1));

TEST(LineLimiter, AdmitsBurstThenOnePerRefill) {
  LineLimiter limiter;
  int admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += limiter.Admit("refused", kStart).has_value() ? 1 : 0;
  EXPECT_EQ(admitted, LineLimiter::kBurst);
  EXPECT_EQ(limiter.Admit("another", kStart), 0u) << "each message has its own bucket";

  const Time later = kStart + LineLimiter::kRefill;
  EXPECT_EQ(limiter.Admit("refused", later - Duration(1)), std::nullopt);
  EXPECT_EQ(limiter.Admit("refused", later), 1001u - LineLimiter::kBurst);
  EXPECT_EQ(limiter.Admit("refused", later), std::nullopt);
  EXPECT_EQ(limiter.Admit("refused", later + LineLimiter::kRefill), 1u);
  const Time quiet = later + std::chrono::hours(1000);
  admitted = 0;
  for (int i = 0; i < 1000; ++i) admitted += limiter.Admit("refused", quiet).has_value() ? 1 : 0;
  EXPECT_EQ(admitted, LineLimiter::kBurst) << "a quiet time earns no more than a burst";
}

TEST(LineLimiter, ManyMessagesShareOneBucket) {
  LineLimiter limiter;
  size_t admitted = 0;
  for (int i = 0; i < 10000; ++i) {
    admitted += limiter.Admit("message " + std::to_string(i), kStart).has_value() ? 1 : 0;
  }
  EXPECT_EQ(admitted, LineLimiter::kMaxMessages + LineLimiter::kBurst);
}

}  // namespace
}  // namespace outrider
