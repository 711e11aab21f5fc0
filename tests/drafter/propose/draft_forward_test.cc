#include "drafter/propose/draft_forward.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class DraftForwardTest : public PartsTest {
 protected:
  // All tokens by descending probability, which identifies the logits row that was picked from.
  static std::vector<TokenId> Order(const PickedRow& row) {
    std::vector<RowEntry> entries(row.entries.begin(), row.entries.end());
    std::sort(entries.begin(), entries.end(), LargerFirst);
    std::vector<TokenId> ids;
    for (const RowEntry& entry : entries) ids.push_back(entry.id);
    return ids;
  }
  std::vector<TokenId> OrderAfter(const std::vector<TokenId>& tokens) const {
    PickedRow row;
    const std::vector<RowEntry> entries =
        TopEntries(model_->Logits(tokens), model_->config().vocab_size);
    row.entries = entries;
    return Order(row);
  }
};

TEST_F(DraftForwardTest, EachShareGetsItsOwnRows) {
  Build({.chunk_depths = 8});
  VerifierConnection& connection = Connect(1);
  Hold(connection, Opening(1, Sequences(3, 3), {5, 6}));
  RunPass();
  Hold(connection, 2, 2, {1, 2, 3, 4, 5, 6});
  Hold(connection, 3, 2, {7, 8});
  const std::vector<PassShare> shares = PlanPass(parts_->sessions, {.session_tokens = 4});
  ASSERT_THAT(shares, SizeIs(3));
  const DraftSession& first = shares[0].held->mirror->session;
  const Result<DraftForward::Pass> pass = parts_->forward.Run(shares);
  ASSERT_TRUE(pass.ok());
  ASSERT_THAT(pass->shares, SizeIs(3));
  ASSERT_EQ(pass->shares[0].rows.size(), first.frontier().size());
  for (size_t i = 0; i < first.frontier().size(); ++i) {
    EXPECT_EQ(Order(pass->shares[0].rows[i]),
              OrderAfter({5, 6, first.draft().token(first.frontier()[i])}));
  }
  EXPECT_TRUE(pass->shares[1].rows.empty()) << "its prompt is not read to its end";
  EXPECT_EQ(Order(pass->shares[2].rows[0]), OrderAfter({7, 8}));
  for (const ShareRows& share : pass->shares) EXPECT_TRUE(share.states.empty());
  EXPECT_EQ(pass->device_rows, 0);
  EXPECT_EQ(pass->device_bytes, 0);
}

TEST_F(DraftForwardTest, StatesComeWhereSomebodyWantsThem) {
  Build();
  VerifierConnection& connection = Connect(1);
  Hold(connection, 1, 2, {5, 6});
  SessionOpening trained = Opening(2, Sequences(1, 2), {7, 8});
  trained.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 1.f};
  Hold(connection, trained).prompt = 1;
  const std::vector<PassShare> shares = PlanPass(parts_->sessions, {});
  const Result<DraftForward::Pass> pass = parts_->forward.Run(shares);
  ASSERT_TRUE(pass.ok());
  EXPECT_THAT(pass->shares[0].states, SizeIs(4));
  const std::vector<float> logits = model_->Logits(std::vector{7, 8});  // begin with the states
  EXPECT_THAT(pass->shares[1].states, ElementsAre(logits[0], logits[1], logits[2], logits[3]));
}

TEST_F(DraftForwardTest, FailureIsTheModels) {
  Build();
  Hold(Connect(1), 1, 2);
  model_->FailNextForward(Internal("lost"));
  EXPECT_EQ(parts_->forward.Run(PlanPass(parts_->sessions, {})).status().code(), Code::kInternal);
}

}  // namespace
}  // namespace outrider
