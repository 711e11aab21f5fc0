#include "common/spec/stop_rule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace outrider {
namespace {

constexpr StopRule Of(StopRule::Kind kind, float threshold) {
  return {.kind = kind, .threshold = threshold};
}

const DraftDistribution kHalves{.ids = {4, 2},
                                .weights = {kDraftWeightTotal / 2, kDraftWeightTotal / 2}};
const DraftDistribution kSure{.ids = {4}, .weights = {kDraftWeightTotal}};

TEST(StopRule, NamesSurviveTheWayThereAndBack) {
  for (const StopRule::Kind kind : kAllStopKinds) {
    const Result<StopRule::Kind> back = ParseStopRule(StopRuleName(kind));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, kind);
  }
  EXPECT_NE(ParseStopRule("luck").status().message().find("entropy"), std::string::npos);
}

TEST(StopRule, StopsBelowTheConfidence) {
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kConfidence, 0.5f), kHalves));
  EXPECT_TRUE(Stops(Of(StopRule::Kind::kConfidence, 0.51f), kHalves));
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kConfidence, 1.f), kSure));
  const std::vector<float> probs = {0.2f, 0.7f, 0.1f};
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kConfidence, 0.69f), probs));
  EXPECT_TRUE(Stops(Of(StopRule::Kind::kConfidence, 0.71f), probs));
}

TEST(StopRule, StopsAboveTheEntropyInNats) {
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kEntropy, 0.6932f), kHalves));  // ln 2 = 0.69315
  EXPECT_TRUE(Stops(Of(StopRule::Kind::kEntropy, 0.6931f), kHalves));
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kEntropy, 0.f), kSure));
  const std::vector<float> uniform(8, 0.125f);  // ln 8 = 2.0794
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kEntropy, 2.08f), uniform));
  EXPECT_TRUE(Stops(Of(StopRule::Kind::kEntropy, 2.079f), uniform));
  EXPECT_FALSE(Stops(Of(StopRule::Kind::kEntropy, 0.f), std::vector<float>{0.f, 1.f, 0.f}));
}

TEST(StopRule, TheOthersDoNotLookAtARow) {
  for (const StopRule::Kind kind : {StopRule::Kind::kLength, StopRule::Kind::kHead}) {
    EXPECT_FALSE(Stops(Of(kind, 1.f), kHalves));
    EXPECT_FALSE(Stops(Of(kind, 0.f), kHalves));
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
