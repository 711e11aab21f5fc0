#include "verifier/propose/point_draft.h"

#include <gtest/gtest.h>

#include "common/rules/host_rounds.h"
#include "common/spec/draft_distribution.h"

namespace outrider::testing {
namespace {

constexpr int kVocab = 8;

TEST(PointDraft, SampledDraftHasPointMasses) {
  const std::vector<TokenId> tokens = {3, 3, 7};
  const DraftTree tree = ToDraft(tokens, DraftKind::kSampled);
  EXPECT_EQ(tree.Path(3), tokens);
  EXPECT_TRUE(Validate(tree, Sequences(1, 3), true, kVocab).ok());
  EXPECT_TRUE(Validate(tree, Sequences(1, 5), true, kVocab).ok());
  for (int node = 0; node < 3; ++node) {
    EXPECT_EQ(Probability(tree.distribution(node), tokens[static_cast<size_t>(node)]), 1);
  }
  EXPECT_TRUE(tree.distribution(3).ids.empty());
}

TEST(PointDraft, GreedyAndRaceHaveNoDistributions) {
  const std::vector<TokenId> tokens = {1, 2};
  for (const DraftKind kind : {DraftKind::kArgmax, DraftKind::kRace}) {
    EXPECT_TRUE(Validate(ToDraft(tokens, kind), Sequences(1, 2), false, kVocab).ok());
  }
}

TEST(PointDraft, EmptyTokensGiveEmptyDraft) {
  for (const DraftKind kind : {DraftKind::kSampled, DraftKind::kArgmax, DraftKind::kRace}) {
    EXPECT_TRUE(ToDraft(std::span<const TokenId>(), kind).empty());
  }
}

// The distribution in the tree and the one that an empty distribution stands for are the same.
TEST(PointDraft, IsVerifiedAsAPointMass) {
  const std::vector<TokenId> tokens = {3, 1};
  const DraftTree with = ToDraft(tokens, DraftKind::kSampled);
  const DraftTree without = ToDraft(tokens, DraftKind::kArgmax);
  const std::vector<float> row = {.05f, .3f, .05f, .4f, .05f, .05f, .05f, .05f};
  const TargetRowFn rows = [&](int) { return std::span<const float>(row); };
  for (const Rule rule :
       {Rule::kToken, Rule::kBlock, Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock}) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Verdict a = VerifyRound(rule, with, rows, kVocab, seed, 1, 0);
      const Verdict b = VerifyRound(rule, without, rows, kVocab, seed, 1, 0);
      EXPECT_EQ(a.node, b.node);
      EXPECT_EQ(a.next, b.next);
    }
  }
}

}  // namespace
}  // namespace outrider::testing
