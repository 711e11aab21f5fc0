#include "common/model/ragged_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr BatchLimits kLimits = {.vocab_size = 10, .max_positions = 20};

template <class T>
std::span<const T> View(const T* data, int count) {
  return {data, static_cast<size_t>(count)};
}

TEST(RaggedBatch, PadsWithRowsOfTheirOwn) {
  PagePool pool(8);
  PageTable table(&pool, 4);
  std::vector<SlotCopy> copies;
  ASSERT_TRUE(table.Reserve(5, &copies).ok());
  table.Append(3, {});
  const std::vector<TokenId> tokens = {1, 2};
  const std::vector<int32_t> parents = {-1, -1}, last = {1};
  RaggedBatch batch;
  for (const bool tree : {false, true}) {
    batch.Begin(tree);
    batch.Add({7, tokens, tree ? parents : std::vector<int32_t>(), last}, table);
    batch.Pad(4, 8, 4);
    const BatchLayout layout = batch.layout();
    EXPECT_EQ(layout.rows, 4);
    EXPECT_EQ(layout.sequences, 3);
    EXPECT_THAT(View(layout.tokens, 4), ElementsAre(1, 2, 0, 0));
    EXPECT_THAT(View(layout.positions, 4), ElementsAre(3, tree ? 3 : 4, 0, 0));
    EXPECT_THAT(View(layout.slots, 4), ElementsAre(table.Slot(3), table.Slot(4), 32, 32));
    EXPECT_THAT(View(layout.row_begin, 4), ElementsAre(0, 2, 3, 4));
    EXPECT_THAT(View(layout.context, 3), ElementsAre(3, 0, 0));
    EXPECT_THAT(View(layout.page_begin, 4), ElementsAre(0, 2, 3, 4));
    EXPECT_THAT(View(layout.pages + 2, 2), ElementsAre(8, 8));
    if (tree) {
      EXPECT_THAT(View(layout.parents, 4), ElementsAre(-1, -1, -1, -1));
    }
    EXPECT_THAT(View(layout.logit_rows, layout.logit_row_count), ElementsAre(1, 3, 3, 3));
    EXPECT_THAT(batch.logit_rows(), ElementsAre(1)) << "those that somebody reads";
  }
  batch.Begin(false);
  batch.Add({7, tokens, {}, {}}, table);
  batch.Pad(4, 8, 4);
  EXPECT_EQ(batch.layout().logit_row_count, 0) << "a part of a prompt computes no logits";
}

TEST(RaggedBatch, FlattensChainsAndTrees) {
  PagePool pool(8);
  PageTable chain(&pool, 4);
  PageTable tree(&pool, 4);
  std::vector<SlotCopy> copies;
  ASSERT_TRUE(chain.Reserve(20, &copies).ok());  // pages reserved for later are not in the batch
  ASSERT_TRUE(tree.Reserve(9, &copies).ok());
  chain.Append(3, {});
  tree.Append(5, {});

  const std::vector<TokenId> chain_tokens = {1, 2};
  const std::vector<TokenId> tree_tokens = {3, 4, 5, 6};
  const std::vector<int32_t> parents = {-1, 0, -1, 1};
  const std::vector<int32_t> last = {1};
  const std::vector<int32_t> some = {0, 3};
  RaggedBatch batch;
  batch.Begin(/*has_tree=*/true);
  batch.Add({7, chain_tokens, {}, last}, chain);
  batch.Add({2, tree_tokens, parents, some}, tree);

  const BatchLayout layout = batch.layout();
  ASSERT_EQ(layout.rows, 6);
  ASSERT_EQ(layout.sequences, 2);
  EXPECT_THAT(View(layout.tokens, 6), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(View(layout.positions, 6), ElementsAre(3, 4, 5, 6, 5, 7));
  EXPECT_THAT(View(layout.slots, 6), ElementsAre(chain.Slot(3), chain.Slot(4), tree.Slot(5),
                                                 tree.Slot(6), tree.Slot(7), tree.Slot(8)));
  EXPECT_THAT(View(layout.row_begin, 3), ElementsAre(0, 2, 6));
  EXPECT_THAT(View(layout.context, 2), ElementsAre(3, 5));
  EXPECT_THAT(View(layout.page_begin, 3), ElementsAre(0, 2, 5));
  EXPECT_THAT(View(layout.pages, 2), ElementsAreArray(chain.pages().first(2)));
  EXPECT_THAT(View(layout.pages + 2, 3), ElementsAreArray(tree.pages()));
  EXPECT_THAT(View(layout.parents, 6), ElementsAre(-1, 0, -1, 0, -1, 1));
  EXPECT_THAT(batch.logit_rows(), ElementsAre(1, 2, 5));
}

TEST(RaggedBatch, ChainsHaveNoParents) {
  PagePool pool(1);
  PageTable table(&pool, 4);
  std::vector<SlotCopy> copies;
  ASSERT_TRUE(table.Reserve(2, &copies).ok());
  const std::vector<TokenId> tokens = {1, 2};
  const std::vector<int32_t> spelled_out = {-1, 0};
  RaggedBatch batch;
  batch.Begin(/*has_tree=*/false);
  batch.Add({0, tokens, spelled_out, {}}, table);
  EXPECT_EQ(batch.layout().parents, nullptr);
  EXPECT_THAT(View(batch.layout().positions, 2), ElementsAre(0, 1));
}

TEST(RaggedBatch, TellsChainsFromTrees) {
  EXPECT_TRUE(IsChain({}));
  EXPECT_TRUE(IsChain(std::vector<int32_t>{-1, 0, 1}));
  EXPECT_FALSE(IsChain(std::vector<int32_t>{-1, -1}));
  EXPECT_FALSE(IsChain(std::vector<int32_t>{-1, 0, 0}));
}

Status Check(int length, const std::vector<TokenId>& tokens, const std::vector<int32_t>& parents,
             const std::vector<int32_t>& logit_rows) {
  return CheckShare({.sequence = 3, .tokens = tokens, .parents = parents, .logit_rows = logit_rows},
                    length, kLimits);
}

TEST(CheckShare, AcceptsSharesUpToLimits) {
  EXPECT_TRUE(Check(0, {0, 9}, {}, {}).ok());
  EXPECT_TRUE(Check(18, {1, 2}, {}, {0, 1}).ok());
  EXPECT_TRUE(Check(5, {1, 2, 3}, {-1, -1, 1}, {2}).ok());
  // Many nodes, none of them deeper than the last position.
  EXPECT_TRUE(Check(19, {1, 2, 3}, {-1, -1, -1}, {2}).ok());
  EXPECT_TRUE(Check(18, {1, 2, 3}, {-1, 0, 0}, {2}).ok());
}

TEST(CheckShare, SaysWhatIsWrong) {
  const auto expect = [](const Status& status, const char* message) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << message;
    EXPECT_THAT(status.message(), ::testing::AllOf(HasSubstr("sequence 3"), HasSubstr(message)));
  };
  expect(Check(0, {}, {}, {}), "no tokens");
  expect(Check(0, {10}, {}, {}), "token 10");
  expect(Check(0, {1, -1}, {}, {}), "token -1");
  expect(Check(0, {1, 2}, {-1}, {}), "1 parents of 2 tokens");
  expect(Check(0, {1, 2}, {-1, 1}, {}), "parent 1 of node 1");
  expect(Check(0, {1, 2}, {0, 0}, {}), "parent 0 of node 0");
  expect(Check(0, {1, 2}, {-1, -2}, {}), "parent -2");
  expect(Check(19, {1, 2}, {}, {}), "position 20");
  expect(Check(20, {1}, {}, {}), "position 20");
  expect(Check(18, {1, 2, 3}, {-1, 0, 1}, {}), "position 20");
  expect(Check(18, {1, 2, 3, 4}, {-1, -1, 1, 2}, {}), "position 20");
  expect(Check(0, {1, 2}, {}, {2}), "logit row 2");
  expect(Check(0, {1, 2}, {}, {-1}), "logit row -1");
  expect(Check(0, {1, 2}, {}, {1, 0}), "logit row 0");
  expect(Check(0, {1, 2}, {}, {1, 1}), "logit row 1");
}

}  // namespace
}  // namespace outrider
