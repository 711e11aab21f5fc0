#include "common/spec/draft.h"

#include <gmock/gmock.h>

namespace outrider {
namespace {

TEST(ParseRule, ReadsEveryRulesName) {
  for (const RuleTraits& rule : kRuleTraits) {
    EXPECT_EQ(RuleName(rule.rule), rule.name);
    const Result<Rule> parsed = ParseRule(rule.name);
    ASSERT_TRUE(parsed.ok()) << rule.name;
    EXPECT_EQ(*parsed, rule.rule);
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
  for (const RuleTraits& rule : kRuleTraits)
    EXPECT_EQ(DraftKindOf(rule.rule, true), DraftKind::kArgmax);
}

TEST(TakesManyPaths, IsFalseForSingleSequenceRules) {
  for (const auto& [rule, name, many_paths] : kRuleTraits) {
    EXPECT_EQ(TakesManyPaths(rule), rule == Rule::kSpecTr || rule == Rule::kMultiRound ||
                                        rule == Rule::kMultiPathBlock || rule == Rule::kGumbel)
        << name;
    EXPECT_EQ(TakesManyPaths(rule), many_paths) << name;
  }
}

}  // namespace
}  // namespace outrider
