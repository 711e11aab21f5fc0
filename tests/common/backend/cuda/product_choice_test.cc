#include "common/backend/cuda/product_choice.h"

#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

size_t Choose(const std::vector<float>& milliseconds) { return ChooseAlgorithm(milliseconds); }

TEST(ProductChoice, PrefersFirstUnlessClearlySlower) {
  EXPECT_EQ(Choose({1.f}), 0u);
  EXPECT_EQ(Choose({1.f, 0.96f, 0.97f}), 0u);
  EXPECT_EQ(Choose({1.f, 0.9f, 0.8f, 0.85f}), 2u);
  EXPECT_EQ(Choose({1.f, 0.8f, 0.8f}), 1u);
}

TEST(ProductChoice, LeavesOutWhatFailed) {
  EXPECT_EQ(Choose({1.f, -1.f, 0.5f}), 2u);
  EXPECT_EQ(Choose({-1.f, 3.f, 2.f}), 2u);
  EXPECT_EQ(Choose({-1.f, -1.f, 2.f}), 2u);
  EXPECT_EQ(Choose({-1.f, -1.f}), 0u);  // the product then reports the error
}

TEST(ProductChoice, BucketsCoverRowsAndAreFew) {
  EXPECT_EQ(RowBucket(1), 16);
  EXPECT_EQ(RowBucket(16), 16);
  EXPECT_EQ(RowBucket(17), 32);
  EXPECT_EQ(RowBucket(128), 128);
  EXPECT_EQ(RowBucket(129), 256);
  EXPECT_EQ(RowBucket(2048), 2048);
  for (int rows = 1; rows < 5000; ++rows) EXPECT_GE(RowBucket(rows), rows);
}

}  // namespace
}  // namespace outrider
