#include "verifier/rules/verify.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/spec/coins.h"

namespace outrider {
namespace {

constexpr Rule kRules[] = {Rule::kToken, Rule::kBlock};

// Two tokens, the target sure of token 1 in every row.
const std::vector<float> kSureOfOne = {0, 1, 0, 1, 0, 1};

TEST(VerifyRound, WithoutADraftIsOneDrawFromTheTarget) {
  for (const Rule rule : kRules) {
    int ones = 0;
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      const Verdict verdict =
          VerifyRound(rule, {}, {}, std::vector<float>{0.25f, 0.75f}, 2, seed, 3);
      EXPECT_EQ(verdict.accepted, 0);
      EXPECT_EQ(verdict.next, Coin(seed, 3, 0, Purpose::kNextToken) < 0.25 ? 0 : 1);
      ones += verdict.next;
    }
    EXPECT_GT(ones, 600);
  }
}

TEST(VerifyRound, AcceptsADraftThatTheTargetIsSureOf) {
  for (const Rule rule : kRules) {
    const TokenId tokens[] = {1, 1};
    const DraftLaw law{{0, 1}, {65535, 1}};
    const Verdict verdict = VerifyRound(rule, tokens, std::vector{law, law}, kSureOfOne, 2, 1, 1);
    EXPECT_EQ(verdict.accepted, 2);
    EXPECT_EQ(verdict.next, 1);
  }
}

TEST(VerifyRound, RejectsATokenThatTheTargetExcludesAndAllBehindIt) {
  for (const Rule rule : kRules) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const TokenId tokens[] = {0, 1};
      const DraftLaw law{{0, 1}, {32768, 32768}};
      const Verdict verdict =
          VerifyRound(rule, tokens, std::vector{law, law}, kSureOfOne, 2, seed, 1);
      EXPECT_EQ(verdict.accepted, 0);
      EXPECT_EQ(verdict.next, 1);
    }
  }
}

TEST(VerifyRound, TakesAnEmptyLawOrNoLawsForPointMasses) {
  const TokenId tokens[] = {1, 0};
  const std::vector<float> rows = {0.5f, 0.5f, 0.75f, 0.25f, 0.5f, 0.5f};
  for (const Rule rule : kRules) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const Verdict bare = VerifyRound(rule, tokens, {}, rows, 2, seed, 0);
      const Verdict empty = VerifyRound(rule, tokens, std::vector<DraftLaw>(2), rows, 2, seed, 0);
      const std::vector<DraftLaw> spelled = {{{1}, {kDraftLawTotal}}, {{0}, {kDraftLawTotal}}};
      const Verdict full = VerifyRound(rule, tokens, spelled, rows, 2, seed, 0);
      EXPECT_EQ(bare.accepted, full.accepted);
      EXPECT_EQ(bare.next, full.next);
      EXPECT_EQ(empty.accepted, full.accepted);
      EXPECT_EQ(empty.next, full.next);
      // The correction of a point mass is never the token that was just rejected.
      if (full.accepted < 2) {
        EXPECT_NE(full.next, tokens[full.accepted]);
      }
    }
  }
}

TEST(VerifyRound, AcceptsEverythingWhereBothLawsAgree) {
  const TokenId tokens[] = {0, 1, 2};
  const DraftLaw law{{0, 1, 2}, {32768, 16384, 16384}};
  const std::vector<float> row = {0.5f, 0.25f, 0.25f};
  std::vector<float> rows;
  for (int i = 0; i < 4; ++i) rows.insert(rows.end(), row.begin(), row.end());
  for (const Rule rule : kRules) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      EXPECT_EQ(VerifyRound(rule, tokens, std::vector(3, law), rows, 3, seed, 0).accepted, 3);
    }
  }
}

// A law that does not hold its token cannot be what was sampled (the wire refuses it): rejected.
TEST(VerifyRound, RejectsATokenOutsideOfItsLaw) {
  const TokenId tokens[] = {1, 1};
  const DraftLaw law{{0}, {kDraftLawTotal}};
  for (const Rule rule : kRules) {
    const Verdict verdict = VerifyRound(rule, tokens, std::vector{law, law}, kSureOfOne, 2, 5, 0);
    EXPECT_EQ(verdict.accepted, 0);
    EXPECT_EQ(verdict.next, 1);
  }
}

TEST(VerifyRound, IsAFunctionOfSeedAndRound) {
  const TokenId tokens[] = {0, 0};
  const DraftLaw law{{0, 1}, {49152, 16384}};
  const std::vector<float> rows = {0.5f, 0.5f, 0.25f, 0.75f, 0.5f, 0.5f};
  int differing = 0;
  for (uint32_t round = 0; round < 100; ++round) {
    const Verdict a = VerifyRound(Rule::kBlock, tokens, std::vector{law, law}, rows, 2, 4, round);
    const Verdict b = VerifyRound(Rule::kBlock, tokens, std::vector{law, law}, rows, 2, 4, round);
    EXPECT_EQ(a.accepted, b.accepted);
    EXPECT_EQ(a.next, b.next);
    const Verdict c =
        VerifyRound(Rule::kBlock, tokens, std::vector{law, law}, rows, 2, 4, round + 1);
    differing += a.accepted != c.accepted || a.next != c.next;
  }
  EXPECT_GT(differing, 30);
}

TEST(VerifyGreedy, StandsWhileTokensEqualTheArgmax) {
  const TokenId tokens[] = {4, 5, 6};
  const auto verify = [&](std::vector<TokenId> argmax) { return VerifyGreedy(tokens, argmax); };
  EXPECT_EQ(verify({4, 5, 6, 7}).accepted, 3);
  EXPECT_EQ(verify({4, 5, 6, 7}).next, 7);
  EXPECT_EQ(verify({4, 9, 6, 7}).accepted, 1);
  EXPECT_EQ(verify({4, 9, 6, 7}).next, 9);
  EXPECT_EQ(verify({1, 5, 6, 7}).accepted, 0);
  EXPECT_EQ(verify({1, 5, 6, 7}).next, 1);
  EXPECT_EQ(VerifyGreedy({}, std::vector<TokenId>{3}).next, 3);
}

// One-hot rows through the sampling rules must be the same decision.
TEST(VerifyGreedy, AgreesWithTheRulesOnPointMasses) {
  for (int code = 0; code < 81; ++code) {
    const TokenId tokens[] = {code % 3, code / 3 % 3};
    const TokenId argmax[] = {code / 9 % 3, code / 27, 2};
    std::vector<float> rows(9, 0.f);
    for (size_t i = 0; i < 3; ++i) rows[i * 3 + static_cast<size_t>(argmax[i])] = 1.f;
    const DraftLaw spread{{0, 1, 2}, {30000, 30000, 5536}};
    const Verdict want = VerifyGreedy(tokens, argmax);
    for (const Rule rule : kRules) {
      const Verdict got = VerifyRound(rule, tokens, std::vector{spread, spread}, rows, 3, 8, 1);
      EXPECT_EQ(got.accepted, want.accepted);
      EXPECT_EQ(got.next, want.next);
    }
  }
}

}  // namespace
}  // namespace outrider
