#include "tests/support/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace outrider::testing {
namespace {

// Q(1/2, x) = erfc(sqrt(x)), Q(1, x) = exp(-x), and tabulated 5 % points of chi-square.
TEST(UpperGamma, HasClosedFormsAndTabledValues) {
  for (const double x : {0.01, 0.5, 1.4, 1.6, 5.0, 40.0}) {
    EXPECT_NEAR(UpperGamma(0.5, x) / std::erfc(std::sqrt(x)), 1, 1e-12) << x;
    EXPECT_NEAR(UpperGamma(1, x) / std::exp(-x), 1, 1e-12) << x;
  }
  EXPECT_NEAR(UpperGamma(5, 18.307 / 2), 0.05, 1e-5);      // 10 degrees of freedom
  EXPECT_NEAR(UpperGamma(50, 124.342 / 2), 0.05, 1e-5);    // 100
  EXPECT_NEAR(UpperGamma(500, 1074.679 / 2), 0.05, 1e-5);  // 1000
}

TEST(ChiSquare, RejectsOnlyBentDistribution) {
  const std::vector<double> distribution = {0.5, 0.25, 0.25};
  EXPECT_NEAR(ChiSquarePValue(std::vector<int64_t>{5000, 2500, 2500}, distribution), 1, 1e-12);
  // Statistic 8 with 2 degrees of freedom: exp(-4).
  EXPECT_NEAR(ChiSquarePValue(std::vector<int64_t>{5000, 2600, 2400}, distribution), std::exp(-4.0),
              1e-9);
  EXPECT_LT(ChiSquarePValue(std::vector<int64_t>{5000, 2900, 2100}, distribution), kFalseAlarm);
}

TEST(ChiSquare, FailsImpossibleCount) {
  EXPECT_EQ(ChiSquarePValue(std::vector<int64_t>{999, 1}, std::vector<double>{1, 0}), 0);
}

TEST(ChiSquare, PoolsRareCells) {
  const std::vector<double> distribution = {0.98, 0.01, 0.01};
  // Two cells with 3 expected counts each are pooled to one with 6.
  EXPECT_NEAR(ChiSquarePValue(std::vector<int64_t>{294, 6, 0}, distribution), 1, 1e-12);
}

}  // namespace
}  // namespace outrider::testing
