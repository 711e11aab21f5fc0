#include "verifier/control/linear_fit.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// Seconds of a draft of so many depths: a fixed part, and each depth's.
LinearFit::Features Depths(int depths) { return {1, static_cast<double>(depths), 0}; }

class LinearFitTest : public ::testing::Test {
 protected:
  LinearFit fit_{0.97, /*first=*/1, LinearFit::Estimates::kMean};
  LinearFit usual_{0.97, /*first=*/1, LinearFit::Estimates::kUsual};
};

TEST_F(LinearFitTest, FindsBothPartsOfATime) {
  for (int i = 0; i < 30; ++i) fit_.Observe(Depths(1 + i % 4), 0.003 + 0.002 * (1 + i % 4));
  EXPECT_NEAR(fit_.Predict(Depths(8)), 0.019, 2e-4);
  EXPECT_NEAR(fit_.Predict(Depths(1)), 0.005, 1e-4);
}

// A drafter that works ahead has some drafts nearly ready.
TEST_F(LinearFitTest, IsTheMeanOfDifferentTimes) {
  for (int i = 0; i < 100; ++i) fit_.Observe(Depths(8), i % 4 == 0 ? 0.002 : 0.016);
  EXPECT_NEAR(fit_.Predict(Depths(8)), 0.75 * 0.016 + 0.25 * 0.002, 1e-3);
}

TEST_F(LinearFitTest, UsualTimeIgnoresStalls) {
  for (int i = 0; i < 20; ++i) usual_.Observe(Depths(8), i % 4 == 3 ? 1 : 0.016);
  EXPECT_NEAR(usual_.Predict(Depths(8)), 0.016, 1e-3);
}

// A second draft waited for another session's prompt. A fixed part of -60 ms would explain both.
TEST_F(LinearFitTest, NoCostIsNegative) {
  fit_.Observe(Depths(1), 0.0066);
  fit_.Observe(Depths(3), 0.139);
  EXPECT_NEAR(fit_.Predict(Depths(1)), 0.0074, 1e-3) << "as it was measured";
  for (int i = 0; i < 20; ++i) fit_.Observe(Depths(2), 0.012);
  EXPECT_NEAR(fit_.Predict(Depths(1)), 0.006, 1e-3);
}

TEST_F(LinearFitTest, StallsHaveLittleWeight) {
  fit_.Observe(Depths(2), 1);
  for (int i = 0; i < 6; ++i) fit_.Observe(Depths(2), 0.010);
  EXPECT_NEAR(fit_.Predict(Depths(2)), 0.010, 1e-3) << "of the first draft";
  fit_.Observe(Depths(2), 1);
  EXPECT_LT(fit_.Predict(Depths(2)), 0.016) << "of a later one";
}

}  // namespace
}  // namespace outrider
