#include "verifier/engine/step_pace.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(StepPace, KeepsTheBudgetWithoutATarget) {
  StepPace pace(8, 100, /*target_seconds=*/0);
  EXPECT_EQ(pace.step_seconds(), 0);
  pace.Record(100, 5);
  EXPECT_EQ(pace.row_budget(), 100);
  EXPECT_EQ(pace.step_seconds(), 5);
  pace.Record(100, 21);
  EXPECT_EQ(pace.step_seconds(), 6) << "a sixteenth of the way";
}

TEST(StepPace, ShrinksToItsTarget) {
  StepPace pace(8, 100, 1);
  pace.Record(60, 2);
  EXPECT_EQ(pace.row_budget(), 51) << "0.85 of the rows that were too many";
  for (int i = 0; i < 50; ++i) pace.Record(pace.row_budget(), 2);
  EXPECT_EQ(pace.row_budget(), 8);
}

TEST(StepPace, GrowsOnlyWhenItIsUsed) {
  StepPace pace(8, 100, 1);
  pace.Record(60, 2);
  pace.Record(20, 0.1);
  EXPECT_EQ(pace.row_budget(), 51) << "few rows say nothing of many";
  pace.Record(26, 0.1);
  EXPECT_EQ(pace.row_budget(), 54);
  for (int i = 0; i < 50; ++i) pace.Record(pace.row_budget(), 0.1);
  EXPECT_EQ(pace.row_budget(), 100);
}

}  // namespace
}  // namespace outrider
