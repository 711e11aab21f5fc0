#include "common/spec/draft.h"

#include <gmock/gmock.h>

namespace outrider {
namespace {

TEST(ParseRule, ReadsEveryRulesName) {
  for (const Rule rule : kAllRules) {
    const Result<Rule> parsed = ParseRule(RuleName(rule));
    ASSERT_TRUE(parsed.ok()) << RuleName(rule);
    EXPECT_EQ(*parsed, rule);
  }
}

TEST(ParseRule, NamesTheRulesThatThereAre) {
  const Result<Rule> parsed = ParseRule("best");
  EXPECT_EQ(parsed.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(parsed.status().message(), ::testing::HasSubstr("\"best\" is none of token, block"));
  EXPECT_THAT(parsed.status().message(), ::testing::HasSubstr("gumbel"));
  EXPECT_FALSE(ParseRule("").ok());
}

TEST(DraftKindOf, FollowsFromRuleAndTemperature) {
  EXPECT_EQ(DraftKindOf(Rule::kBlock, false), DraftKind::kSampled);
  EXPECT_EQ(DraftKindOf(Rule::kGumbel, false), DraftKind::kRace);
  for (const Rule rule : kAllRules) EXPECT_EQ(DraftKindOf(rule, true), DraftKind::kArgmax);
}

TEST(TakesManyPaths, IsFalseForTheRulesOfOneSequence) {
  for (const Rule rule : kAllRules) {
    EXPECT_EQ(TakesManyPaths(rule), rule == Rule::kSpecTr || rule == Rule::kMultiRound ||
                                        rule == Rule::kMultiPathBlock || rule == Rule::kGumbel);
  }
}

}  // namespace
}  // namespace outrider
