#include "drafter/rpc/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace outrider {
namespace {

TEST(Backoff, DoublesItsBoundWithJitter) {
  Backoff backoff(std::chrono::seconds(2), 1);
  Duration longest[64] = {};
  for (int run = 0; run < 500; ++run) {
    for (Duration& pause : longest) pause = std::max(pause, backoff.Next());
    backoff.Reset();
  }
  EXPECT_EQ(longest[0], Duration::zero());
  Duration bound = std::chrono::milliseconds(100);
  for (int i = 1; i < 64; ++i) {
    EXPECT_LE(longest[i], bound);
    EXPECT_GT(longest[i], bound * 9 / 10);  // all 500 below has probability 1e-22
    bound = std::min<Duration>(bound * 2, std::chrono::seconds(2));
  }
}

}  // namespace
}  // namespace outrider
