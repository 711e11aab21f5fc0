#include "common/spec/stop_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace outrider {
namespace {

constexpr StopRule Of(StopRule::Kind kind, float threshold) {
  return {.kind = kind, .threshold = threshold};
}

const DraftDistribution kUnsure{.ids = {4, 2},
                                .weights = {kDraftWeightTotal / 2, kDraftWeightTotal / 2}};
const DraftDistribution kSure{.ids = {4}, .weights = {kDraftWeightTotal}};

TEST(StopRule, NamesRoundTrip) {
  for (const StopRule::Kind kind : kAllStopKinds) {
    const Result<StopRule::Kind> back = ParseStopRule(StopRuleName(kind));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, kind);
  }
  EXPECT_NE(ParseStopRule("luck").status().message().find("entropy"), std::string::npos);
}

TEST(StopRule, StopsBelowTheConfidence) {
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kConfidence, 0.5f), kUnsure));
  EXPECT_TRUE(Stops(Of(StopRule::Kind::kConfidence, 0.51f), kUnsure));
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kConfidence, 1.f), kSure));
  EXPECT_FALSE(StopsAtMeasure(Of(StopRule::Kind::kConfidence, 0.69f), 0.7f));
  EXPECT_TRUE(StopsAtMeasure(Of(StopRule::Kind::kConfidence, 0.71f), 0.7f));
}

TEST(StopRule, StopsAboveTheEntropyInNats) {
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kEntropy, 0.6932f), kUnsure));  // ln 2 = 0.69315
  EXPECT_TRUE(Stops(Of(StopRule::Kind::kEntropy, 0.6931f), kUnsure));
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kEntropy, 0.f), kSure));
  EXPECT_FALSE(StopsAtMeasure(Of(StopRule::Kind::kEntropy, 2.08f), 2.0794f));
  EXPECT_TRUE(StopsAtMeasure(Of(StopRule::Kind::kEntropy, 2.079f), 2.0794f));
}

TEST(StopRule, OtherRulesIgnoreTheRow) {
  for (const StopRule::Kind kind : {StopRule::Kind::kLength, StopRule::Kind::kHead}) {
    EXPECT_FALSE(Stops(Of(kind, 1.f), kUnsure));
    EXPECT_FALSE(StopsAtMeasure(Of(kind, 1.f), 0.5f));
  }
}

TEST(StopRule, ThresholdsHaveBounds) {
  for (const StopRule::Kind kind : kAllStopKinds) {
    EXPECT_TRUE(Validate(Of(kind, 0.f)).ok());
    EXPECT_TRUE(Validate(Of(kind, DefaultThreshold(kind))).ok());
    EXPECT_EQ(Validate(Of(kind, 1.f)).ok(), kind != StopRule::Kind::kLength);
    EXPECT_EQ(Validate(Of(kind, 1.5f)).ok(), kind == StopRule::Kind::kEntropy);
    for (const float bad : {-0.1f, 32.1f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
      EXPECT_EQ(Validate(Of(kind, bad)).code(), Code::kInvalidArgument) << bad;
    }
  }
}

}  // namespace
}  // namespace outrider
