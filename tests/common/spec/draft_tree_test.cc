#include "common/spec/draft_tree.h"

#include <gmock/gmock.h>

#include <limits>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const DraftDistribution kHalves{{3, 5}, {32768, 32768}};

TEST(DraftShape, CountsItsSequencesAndDraws) {
  const DraftShape tree{.length = 3, .branching = {2, 1, 3}};
  EXPECT_EQ(tree.leaves(), 6);
  EXPECT_EQ(tree.total_draws(), 2 + 2 + 6);
  EXPECT_EQ(tree.draws(0), 2);
  EXPECT_EQ(tree.draws(1), 1);
  EXPECT_EQ(tree.draws(7), 1);
  const DraftShape short_tree{.length = 1,
                              .branching = {2, 9}};  // the part beyond the length is not drafted
  EXPECT_EQ(short_tree.leaves(), 2);
  EXPECT_EQ(short_tree.total_draws(), 2);
  EXPECT_EQ(DraftShape().leaves(), 1);
  EXPECT_EQ(DraftShape().total_draws(), 0);
}

TEST(DraftShape, SaturatesFarAboveAnyLimit) {
  const int most = std::numeric_limits<int>::max();
  for (const auto& branching :
       {std::vector<int>(40, 2), {1 << 30, 1 << 9, most}, {most, most, most}}) {
    const DraftShape shape{.length = 50, .branching = branching};
    EXPECT_GE(shape.leaves(), int64_t{1} << 31) << branching[0];
    EXPECT_GE(shape.total_draws(), int64_t{1} << 31) << branching[0];
  }
}

TEST(Sequences, AreDrawsAtTheRootAlone) {
  EXPECT_EQ(Sequences(4, 3), (DraftShape{.length = 3, .branching = {4}}));
  EXPECT_EQ(Sequences(1, 3), (DraftShape{.length = 3, .branching = {}}));
  EXPECT_EQ(Sequences(4, 3).total_draws(), 12);
}

TEST(DraftTree, IsItsRootAtFirst) {
  const DraftTree tree;
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.max_depth(), 0);
  EXPECT_THAT(tree.draws(DraftTree::kRoot), IsEmpty());
  EXPECT_THAT(tree.Path(DraftTree::kRoot), IsEmpty());
}

TEST(DraftTree, SharesPrefixesAndKeepsEveryDraw) {
  DraftTree tree;
  EXPECT_EQ(tree.AddDraw(0, 5), 1);
  EXPECT_EQ(tree.AddDraw(0, 3), 2);
  EXPECT_EQ(tree.AddDraw(0, 5), 1);
  EXPECT_EQ(tree.AddDraw(2, 5), 3);
  EXPECT_EQ(tree.size(), 3);
  EXPECT_EQ(tree.total_draws(), 4);
  EXPECT_EQ(tree.max_depth(), 2);
  EXPECT_THAT(tree.draws(0), ElementsAre(1, 2, 1));
  EXPECT_THAT(tree.draws(2), ElementsAre(3));
  EXPECT_THAT(tree.Path(3), ElementsAre(3, 5));
  EXPECT_EQ(tree.parent(3), 2);
  EXPECT_EQ(tree.depth(3), 2);
  EXPECT_EQ(tree.token(3), 5);
  EXPECT_EQ(tree.Child(0, 3), 2);
  EXPECT_EQ(tree.Child(0, 4), -1);
  EXPECT_EQ(tree.Child(1, 5), -1);
}

TEST(DraftTree, ChainHasOneNodePerToken) {
  const TokenId tokens[] = {3, 5, 3};
  const DraftTree tree = DraftTree::Chain(tokens, {kHalves, kHalves, kHalves});
  EXPECT_THAT(tree.Path(3), ElementsAre(3, 5, 3));
  EXPECT_THAT(tree.distribution(2).ids, ElementsAre(3, 5));
  EXPECT_THAT(tree.distribution(3).ids, IsEmpty());
  EXPECT_TRUE(Validate(tree, Sequences(1, 3), true, 6).ok());
  EXPECT_TRUE(Validate(DraftTree::Chain(tokens, {}), Sequences(1, 3), false, 6).ok());
}

TEST(DraftTree, PartsEqualSingleDraws) {
  DraftTree tree;
  ASSERT_TRUE(
      tree.Append({.tokens = {5, 3, 5}, .parents = {0, 0, 0}, .distributions = {kHalves}}).ok());
  ASSERT_TRUE(
      tree.Append({.tokens = {3, 3, 5}, .parents = {1, 2, 1}, .distributions = {kHalves, kHalves}})
          .ok());
  EXPECT_THAT(tree.draws(0), ElementsAre(1, 2, 1));
  EXPECT_THAT(tree.draws(1), ElementsAre(3, 5));
  EXPECT_THAT(tree.draws(2), ElementsAre(4));
  EXPECT_TRUE(Validate(tree, Sequences(3, 2), true, 6).ok());
}

TEST(DraftTree, PartWithoutParentsIsSequence) {
  DraftTree tree;
  ASSERT_TRUE(tree.Append({.tokens = {4, 4}}).ok());
  ASSERT_TRUE(tree.Append({.tokens = {2}}).ok());
  EXPECT_THAT(tree.Path(3), ElementsAre(4, 4, 2));
  EXPECT_TRUE(tree.Append({}).ok());
  EXPECT_EQ(tree.size(), 3);
}

TEST(DraftTree, PartsMayBranchWithinThemselves) {
  DraftTree tree;
  ASSERT_TRUE(
      tree.Append({.tokens = {3, 5, 3}, .parents = {0, 1, 0}, .distributions = {kHalves, kHalves}})
          .ok());
  EXPECT_THAT(tree.draws(0), ElementsAre(1, 1));
  EXPECT_THAT(tree.draws(1), ElementsAre(2));
}

std::string AppendError(DraftChunk chunk) {
  DraftTree tree;
  EXPECT_TRUE(tree.Append({.tokens = {3, 5}, .parents = {0, 0}}).ok());
  const Status status = tree.Append(std::move(chunk));
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.message();
}

TEST(DraftTree, NamesErrorsInParts) {
  EXPECT_THAT(AppendError({.tokens = {3, 5}, .parents = {1}}), HasSubstr("1 parents for 2"));
  EXPECT_THAT(AppendError({.tokens = {3}, .parents = {3}}), HasSubstr("after node 3 of 2"));
  EXPECT_THAT(AppendError({.tokens = {3}, .parents = {-1}}), HasSubstr("after node -1"));
  EXPECT_THAT(AppendError({.tokens = {3}, .parents = {0}}), HasSubstr("two parts"));
  EXPECT_THAT(AppendError({.tokens = {3, 3}, .parents = {1, 2}, .distributions = {kHalves}}),
              HasSubstr("node 2: no row"));
  EXPECT_THAT(
      AppendError({.tokens = {3, 3}, .parents = {1, 1}, .distributions = {kHalves, kHalves}}),
      HasSubstr("2 draft rows for 1 prefixes"));
  EXPECT_THAT(AppendError({.distributions = {kHalves}}), HasSubstr("1 draft rows for 0 prefixes"));
}

// Two draft tokens at the root, one after each.
DraftTree TwoSequences() {
  DraftTree tree;
  tree.SetDistribution(0, kHalves);
  tree.AddDraw(0, 3);
  tree.AddDraw(0, 5);
  tree.SetDistribution(1, kHalves);
  tree.AddDraw(1, 5);
  tree.SetDistribution(2, kHalves);
  tree.AddDraw(2, 5);
  return tree;
}

TEST(ValidateDraftTree, PassesWhatWasAskedFor) {
  EXPECT_TRUE(Validate(DraftTree(), Sequences(2, 2), true, 6).ok());
  EXPECT_TRUE(Validate(TwoSequences(), Sequences(2, 2), true, 6).ok());
  EXPECT_TRUE(Validate(TwoSequences(), {.length = 2, .branching = {2, 1}}, true, 6).ok());
  EXPECT_TRUE(Validate(TwoSequences(), Sequences(2, 5), true, 6).ok());  // it ended early
  DraftTree doubled;  // a prefix that was sampled twice continues twice
  doubled.SetDistribution(0, kHalves);
  doubled.AddDraw(0, 3);
  doubled.AddDraw(0, 3);
  doubled.SetDistribution(1, kHalves);
  doubled.AddDraw(1, 3);
  doubled.AddDraw(1, 3);
  EXPECT_TRUE(Validate(doubled, Sequences(2, 2), true, 6).ok());
  DraftTree greedy;  // fewer are allowed
  greedy.AddDraw(0, 1);
  greedy.AddDraw(0, 2);
  EXPECT_TRUE(Validate(greedy, Sequences(4, 1), false, 6).ok());
}

std::string ValidateError(const DraftTree& tree, const DraftShape& shape,
                          bool with_distributions = true) {
  const Status status = Validate(tree, shape, with_distributions, 6);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return status.message();
}

TEST(ValidateDraftTree, NamesWhatIsWrong) {
  const DraftShape two = Sequences(2, 2);
  EXPECT_THAT(ValidateError(TwoSequences(), Sequences(2, 1)), HasSubstr("asked for length 1"));
  EXPECT_THAT(ValidateError(TwoSequences(), Sequences(3, 2)), HasSubstr("2 draws, asked for 3"));
  EXPECT_THAT(ValidateError(TwoSequences(), Sequences(1, 2)), HasSubstr("2 draws, asked for 1"));
  EXPECT_THAT(ValidateError(TwoSequences(), two, false), HasSubstr("without rows"));

  DraftTree tree = TwoSequences();
  tree.SetDistribution(1, {});
  EXPECT_THAT(ValidateError(tree, two), HasSubstr("node 1: no row"));
  tree = TwoSequences();
  tree.SetDistribution(3, kHalves);
  EXPECT_THAT(ValidateError(tree, two), HasSubstr("node 3: a row without draws"));
  tree = TwoSequences();
  tree.SetDistribution(2, {{3, 4}, {32768, 32768}});
  EXPECT_THAT(ValidateError(tree, two), HasSubstr("token 5 is not among"));
  tree = TwoSequences();
  tree.AddDraw(2, 3);
  EXPECT_THAT(ValidateError(tree, two), HasSubstr("node 2: 2 draws, asked for 1"));

  DraftTree repeated;  // a node that was sampled twice lacks one continuation
  repeated.SetDistribution(0, kHalves);
  repeated.AddDraw(0, 3);
  repeated.AddDraw(0, 3);
  repeated.SetDistribution(1, kHalves);
  repeated.AddDraw(1, 3);
  EXPECT_THAT(ValidateError(repeated, two), HasSubstr("1 draws, asked for 2"));

  DraftTree bare;
  bare.AddDraw(0, 4);
  bare.AddDraw(0, 4);
  EXPECT_THAT(ValidateError(bare, two, false), HasSubstr("token 4 proposed twice"));
  bare = DraftTree();
  bare.AddDraw(0, 6);
  EXPECT_THAT(ValidateError(bare, two, false), HasSubstr("token id 6"));
  bare = DraftTree();
  bare.AddDraw(0, -1);
  EXPECT_THAT(ValidateError(bare, two, false), HasSubstr("token id -1"));
}

}  // namespace
}  // namespace outrider
