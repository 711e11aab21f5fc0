#include "verifier/engine/batch_entry.h"

#include <gmock/gmock.h>

#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class BatchEntryTest : public ::testing::Test {
 protected:
  BatchEntryTest() {
    session_.sequence = 7;
    session_.tokens = {10, 11, 12, 13};
    session_.computed = 1;
  }
  Session session_;
};

TEST_F(BatchEntryTest, PromptChunkWantsNoLogits) {
  const BatchEntry entry = MakeBatchEntry(session_, {.pending = 2, .last = false});
  EXPECT_FALSE(entry.ends_round);
  EXPECT_THAT(entry.tokens, ElementsAre(11, 12));
  EXPECT_THAT(entry.parents, IsEmpty());
  EXPECT_THAT(entry.logit_rows, IsEmpty());
}

TEST_F(BatchEntryTest, LastPendingTokenHasLogits) {
  const BatchEntry entry = MakeBatchEntry(session_, {.pending = 3, .last = true});
  EXPECT_TRUE(entry.ends_round);
  EXPECT_THAT(entry.tokens, ElementsAre(11, 12, 13));
  EXPECT_THAT(entry.logit_rows, ElementsAre(2));
  const ForwardSequence forward = ForwardOf(entry);
  EXPECT_EQ(forward.sequence, 7);
  EXPECT_FALSE(forward.logits_to_host);
}

TEST_F(BatchEntryTest, ChainFollowsThePendingTokens) {
  session_.drafting = DraftingState(Duration::zero());
  session_.drafting.UseOwnDraft(DraftTree::Chain(std::vector<TokenId>{20, 21}, {}));
  const BatchEntry entry = MakeBatchEntry(session_, {.pending = 3, .last = true});
  EXPECT_THAT(entry.tokens, ElementsAre(11, 12, 13, 20, 21));
  EXPECT_THAT(entry.parents, IsEmpty());
  EXPECT_THAT(entry.logit_rows, ElementsAre(2, 3, 4));
  EXPECT_EQ(entry.rows(), 5);
}

TEST_F(BatchEntryTest, TreeNamesItsParents) {
  DraftTree tree;
  const int first = tree.AddDraw(DraftTree::kRoot, 20);
  tree.AddDraw(DraftTree::kRoot, 21);
  tree.AddDraw(first, 22);
  session_.drafting = DraftingState(Duration::zero());
  session_.drafting.UseOwnDraft(tree);
  session_.computed = 2;
  const BatchEntry entry = MakeBatchEntry(session_, {.pending = 2, .last = true});
  EXPECT_THAT(entry.tokens, ElementsAre(12, 13, 20, 21, 22));
  EXPECT_THAT(entry.parents, ElementsAre(-1, 0, 1, 1, 2));
  EXPECT_THAT(entry.logit_rows, ElementsAre(1, 2, 3, 4));
}

}  // namespace
}  // namespace outrider
