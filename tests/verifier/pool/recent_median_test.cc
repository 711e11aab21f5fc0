#include "verifier/pool/recent_median.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(RecentMedian, OutlastsStallAndFollowsChange) {
  RecentMedian time;
  EXPECT_FALSE(time.Get().has_value());
  time.Add(5);
  EXPECT_EQ(time.Get(), 5);
  time.Add(1);
  EXPECT_EQ(time.Get(), 1) << "of two the lower";
  time.Add(2);
  EXPECT_EQ(time.Get(), 2);
  for (int i = 0; i < 5; ++i) time.Add(1);
  time.Add(9);
  time.Add(9);
  EXPECT_EQ(time.Get(), 1);
  time.Add(9);
  EXPECT_EQ(time.Get(), 9);
}

TEST(RecentMedian, UsesInformativeLowerBounds) {
  RecentMedian time;
  time.AddAtLeast(4);
  EXPECT_EQ(time.Get(), 4);
  time.AddAtLeast(3);
  time.Add(4);
  time.AddAtLeast(7);
  EXPECT_EQ(time.Get(), 4);
  time.AddAtLeast(7);
  time.AddAtLeast(7);
  EXPECT_EQ(time.Get(), 7);
}

}  // namespace
}  // namespace outrider
