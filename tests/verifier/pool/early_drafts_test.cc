// Drafts that arrive before the verdict that they are made for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tests/verifier/pool/pool_fixture.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// An early draft for the case that round 1 ends with node 1 and token 9.
DraftPart EarlyPart(uint64_t session, uint32_t round = 2) {
  return {.session = session,
          .round = round,
          .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5, 6}, {65535, 1})}},
          .early = RoundEnd{.node = 1, .next = 9}};
}

class EarlyPool : public Pool {
 protected:
  EarlyPool() {
    link_ = Join(1, Hello("a"));
    Open(1, 1);
    pool_.OnDrafts(
        1,
        {{.session = 1,
          .round = 1,
          .chunk = {.tokens = {8}, .distributions = {OutputDistribution({8}, {65536})}}}},
        0);
    consumer_ = {};
  }
  void Decide(uint32_t round, uint32_t next_round) {
    pool_.Decide({.session = 1,
                  .round = round,
                  .node = 1,
                  .next = {9},
                  .plan = {.round = next_round, .shape = Sequences(1, 1)}});
  }

  std::shared_ptr<RecordingLink> link_;
};

TEST_F(EarlyPool, HasDraftWhenPlanIsMade) {
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(consumer_.drafts.empty()) << "nobody waits for it yet";
  EXPECT_TRUE(std::isnan(pool_.Timing(1, 0)->last) || pool_.Timing(1, 0)->early == 0);
  Decide(1, 2);
  const DraftTree* const draft = pool_.EarlyDraft(1);
  ASSERT_NE(draft, nullptr);
  EXPECT_EQ(draft->Path(1), std::vector<TokenId>{5});
  EXPECT_GT(pool_.Timing(1, 0)->early, 0);
  EXPECT_EQ(pool_.roster().Snapshot().at(0).drafted_tokens, 2u);
}

TEST_F(EarlyPool, DeliversDraftThatCrossedVerdict) {
  Decide(1, 2);
  EXPECT_EQ(pool_.EarlyDraft(1), nullptr);
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_EQ(consumer_.drafts[1].Path(1), std::vector<TokenId>{5});
  EXPECT_TRUE(consumer_.complete[1]);
}

// It could be shorter than what the engine has taken of the plan's own draft.
TEST_F(EarlyPool, RefusesDraftsAfterPartsOfPlan) {
  Decide(1, 2);
  DraftPart part = EarlyPart(1);
  part.early.reset();
  part.chunk.more = true;
  pool_.OnDrafts(1, {part}, 0);
  EXPECT_EQ(consumer_.drafts[1].size(), 1);
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_THAT(link_->closed_with.message(), HasSubstr("an early draft after a part"));
  EXPECT_EQ(consumer_.drafts[1].size(), 1);
}

TEST_F(EarlyPool, DropsDraftsForUnplannedRounds) {
  Decide(1, 5);  // plain rounds happened in between
  EXPECT_EQ(pool_.EarlyDraft(1), nullptr);
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(consumer_.drafts.empty());
  EXPECT_TRUE(link_->closed_with.ok());
}

TEST_F(EarlyPool, DropsCrossedDraftsOfClosedSessions) {
  pool_.Close(1);
  for (int i = 0; i < kMaxEarlyDrafts; ++i) pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(link_->closed_with.ok());
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_THAT(link_->closed_with.message(), HasSubstr("a draft nobody asked for"));
}

// The drafter gave the session up for lack of pages before it heard that its draft was used.
TEST_F(EarlyPool, TakesRefusalsOfAnsweredPlans) {
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  Decide(1, 2);
  ASSERT_NE(pool_.EarlyDraft(1), nullptr);
  Decide(2, 3);
  pool_.OnDrafts(1, {{.session = 1, .round = 2, .chunk = {}}}, 0);
  EXPECT_TRUE(link_->closed_with.ok());
  EXPECT_TRUE(consumer_.refused.empty()) << "that round is over";
  pool_.OnDrafts(1, {{.session = 1, .round = 3, .chunk = {}}}, 0);
  EXPECT_TRUE(link_->closed_with.ok());
  EXPECT_EQ(consumer_.refused, std::vector<uint64_t>{1});
  pool_.OnDrafts(1, {{.session = 1, .round = 3, .chunk = {}}}, 0);
  EXPECT_THAT(link_->closed_with.message(), HasSubstr("a draft nobody asked for"));
}

TEST_F(EarlyPool, ClosesStreamOfTooManyDrafts) {
  for (int i = 0; i < kMaxEarlyDrafts; ++i) pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_TRUE(link_->closed_with.ok());
  pool_.OnDrafts(1, {EarlyPart(1)}, 0);
  EXPECT_THAT(link_->closed_with.message(), HasSubstr("more than 4 early drafts"));
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{1});

  const auto other = Join(2, Hello("b"));
  Open(2, 1);
  pool_.OnDrafts(2, {EarlyPart(2, 4)}, 0);
  EXPECT_THAT(other->closed_with.message(), HasSubstr("a draft nobody asked for"));
}

}  // namespace
}  // namespace outrider
