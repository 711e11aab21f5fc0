#include "common/base/short_number.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(ShortNumber, LeavesOutZeros) {
  EXPECT_EQ(ShortNumber(3), "3");
  EXPECT_EQ(ShortNumber(0.25), "0.25");
  EXPECT_EQ(ShortNumber(0.1f), "0.1");
  EXPECT_EQ(ShortNumber(1e-7), "1e-07");
}

}  // namespace
}  // namespace outrider
