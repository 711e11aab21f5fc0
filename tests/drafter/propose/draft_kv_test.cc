#include "drafter/propose/draft_kv.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "tests/support/fake_model.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr int kPageTokens = 4;

class DraftKvTest : public ::testing::Test {
 protected:
  void Start(int pages) {
    kv_.reset();
    model_ = std::make_unique<FakeModel>(
        FakeModelOptions{.page_tokens = kPageTokens, .total_pages = pages});
    budget_.emplace(model_.get());
    kv_.emplace(model_.get(), &*budget_, model_->NewSequence());
  }

  void Feed(SequenceId sequence, const std::vector<TokenId>& tokens) {
    const ForwardSequence share{
        .sequence = sequence, .tokens = tokens, .parents = {}, .logit_rows = {}};
    ForwardOutput output;
    ASSERT_TRUE(model_->Forward({&share, 1}, false, &output).ok());
  }

  // A sequence of `tokens` with a plan.
  void Trunk(const std::vector<TokenId>& tokens, const DraftShape& shape) {
    ASSERT_TRUE(kv_->Secure(static_cast<int>(tokens.size()), shape).ok());
    Feed(kv_->sequence(DraftTree::kRoot), tokens);
  }

  std::unique_ptr<FakeModel> model_;
  std::optional<PageBudget> budget_;
  std::optional<DraftKv> kv_;
};

// Adds draft tokens after each of `nodes`. Returns the new nodes.
std::vector<int32_t> Grow(DraftTree& tree, const std::vector<int32_t>& nodes,
                          const std::vector<TokenId>& tokens) {
  std::vector<int32_t> grown;
  for (const int32_t node : nodes) {
    for (const TokenId token : tokens) grown.push_back(tree.AddDraw(node, token));
  }
  return grown;
}

TEST_F(DraftKvTest, FirstChildContinuesAndOthersFork) {
  Start(100);
  Trunk({1, 2, 3, 4, 5}, Sequences(3, 3));
  DraftTree tree;
  const std::vector<int32_t> first = Grow(tree, {0}, {7, 8, 9});
  kv_->Branch(tree, first);
  EXPECT_EQ(kv_->sequence(1), kv_->sequence(0));
  EXPECT_EQ(model_->sequences(), 3);
  for (const int32_t node : first) {
    EXPECT_THAT(model_->tokens(kv_->sequence(node)), ElementsAre(1, 2, 3, 4, 5));
    Feed(kv_->sequence(node), {tree.token(node)});
  }
  const std::vector<int32_t> second = Grow(tree, {2}, {6});
  kv_->Branch(tree, second);
  EXPECT_EQ(kv_->sequence(second[0]), kv_->sequence(2));
  EXPECT_THAT(model_->tokens(kv_->sequence(second[0])), ElementsAre(1, 2, 3, 4, 5, 8));
}

TEST_F(DraftKvTest, KeepsAcceptedPathAndFreesOthers) {
  for (int kept = 0; kept <= 3; ++kept) {
    Start(100);
    Trunk({1, 2, 3, 4, 5}, Sequences(3, 3));
    DraftTree tree;
    const std::vector<int32_t> first = Grow(tree, {0}, {7, 8, 9});
    kv_->Branch(tree, first);
    for (const int32_t node : first) Feed(kv_->sequence(node), {tree.token(node)});
    const int length = 5 + tree.depth(kept);
    kv_->Keep(kept, length);
    EXPECT_EQ(model_->sequences(), 1);
    std::vector<TokenId> expected = {1, 2, 3, 4, 5};
    if (kept > 0) expected.push_back(tree.token(kept));
    EXPECT_EQ(model_->tokens(kv_->sequence(DraftTree::kRoot)), expected);
    EXPECT_EQ(budget_->free_pages(), model_->free_pages());
    EXPECT_EQ(model_->free_pages(), 100 - 2);  // 7 tokens were secured
  }
}

TEST_F(DraftKvTest, WorstCaseTakesExactlyReservedPages) {
  // After 6 tokens with 5 more to come: a fork at 6 shares one page and needs two, one at 8 shares
  // two and needs one.
  const DraftShape shape{.length = 6, .branching = {2, 1, 3}};
  const int pages = 3 + 2 + 4 * 1;
  Start(pages - 1);
  EXPECT_EQ(kv_->Secure(6, shape).code(), Code::kOutOfRange);
  Start(pages);
  Trunk({1, 2, 3, 4, 5, 6}, shape);
  EXPECT_EQ(budget_->free_pages(), 0);
  EXPECT_EQ(model_->free_pages(), pages - 3);
  DraftTree tree;
  std::vector<int32_t> nodes = {DraftTree::kRoot};
  for (int depth = 0; depth < 5; ++depth) {
    std::vector<TokenId> tokens;
    for (TokenId token = 0; token < shape.draws(depth); ++token) tokens.push_back(token);
    nodes = Grow(tree, nodes, tokens);
    kv_->Branch(tree, nodes);
    for (const int32_t node : nodes) Feed(kv_->sequence(node), {tree.token(node)});
    EXPECT_EQ(budget_->free_pages(), 0);
  }
  EXPECT_EQ(model_->free_pages(), 0);
  kv_.reset();
  EXPECT_EQ(model_->free_pages(), pages);
  EXPECT_EQ(budget_->free_pages(), pages);
}

TEST_F(DraftKvTest, ForksNeverExceedReservation) {
  // Branches that coincide and diverge later need at most the pages reserved for diverging at once.
  for (int length = 1; length <= 9; ++length) {
    for (int part = 0; part < 5; ++part) {
      Start(100);
      Trunk(std::vector<TokenId>(static_cast<size_t>(length), 1), Sequences(4, 6));
      const int64_t secured = budget_->free_pages();
      DraftTree tree;
      std::vector<int32_t> nodes = {DraftTree::kRoot};
      for (int depth = 0; depth < 5; ++depth) {
        const std::vector<TokenId> tokens =
            depth == part ? std::vector<TokenId>{1, 2, 3, 4} : std::vector<TokenId>{5};
        nodes = Grow(tree, nodes, tokens);
        kv_->Branch(tree, nodes);
        for (const int32_t node : nodes) Feed(kv_->sequence(node), {tree.token(node)});
        EXPECT_EQ(budget_->free_pages(), secured);
      }
      kv_->FreeUnusedPages();
      EXPECT_GE(budget_->free_pages(), secured);
      EXPECT_EQ(budget_->free_pages(), model_->free_pages());
    }
  }
}

TEST_F(DraftKvTest, ReservedPagesAreNotGivenAway) {
  Start(8);
  Trunk({1, 2, 3, 4, 5}, Sequences(4, 3));  // 2 pages and 3 to come
  EXPECT_EQ(budget_->free_pages(), 3);
  {
    DraftKv other(model_.get(), &*budget_, model_->NewSequence());
    EXPECT_EQ(other.Secure(16, Sequences(1, 1)).code(), Code::kResourceExhausted);
  }
  {
    DraftKv other(model_.get(), &*budget_, model_->NewSequence());
    EXPECT_TRUE(other.Secure(12, Sequences(1, 1)).ok());
    EXPECT_EQ(budget_->free_pages(), 0);
  }
  EXPECT_EQ(budget_->free_pages(), 3);
}

}  // namespace
}  // namespace outrider
