#include "drafter/rpc/backoff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <span>

namespace outrider {
namespace {

// Of 500 runs, the longest pause after each failure.
std::array<Duration, 64> LongestPauses(Backoff backoff) {
  std::array<Duration, 64> longest = {};
  for (int run = 0; run < 500; ++run) {
    for (Duration& pause : longest) pause = std::max(pause, backoff.Next());
    backoff.Reset();
  }
  return longest;
}

void ExpectDoubling(std::span<const Duration> longest, Duration bound, Duration last) {
  for (const Duration pause : longest) {
    EXPECT_LE(pause, bound);
    EXPECT_GT(pause, bound * 9 / 10);  // all 500 below has probability 1e-22
    bound = std::min(bound * 2, last);
  }
}

TEST(Backoff, DoublesItsBoundWithJitter) {
  using std::chrono::milliseconds;
  const auto longest = LongestPauses(Backoff({.last = milliseconds(2000)}, 1));
  EXPECT_EQ(longest[0], Duration::zero());
  ExpectDoubling(std::span(longest).subspan(1), milliseconds(100), milliseconds(2000));
}

TEST(Backoff, MayPauseAfterTheFirstFailure) {
  using std::chrono::seconds;
  const auto longest =
      LongestPauses(Backoff({.first = seconds(1), .last = seconds(10), .first_at_once = false}, 1));
  ExpectDoubling(longest, seconds(1), seconds(10));
}

}  // namespace
}  // namespace outrider
