#include "verifier/engine/drafting_state.h"

#include <gmock/gmock.h>

#include <chrono>
#include <vector>

#include "tests/support/fake_clock.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Duration kWait = std::chrono::milliseconds(10);
constexpr Duration kExtra = std::chrono::milliseconds(100);

DraftTree Chain(std::vector<TokenId> tokens) { return DraftTree::Chain(tokens, {}); }

class DraftingStateTest : public ::testing::Test {
 protected:
  DraftPlan Plan(uint32_t round) { return {.round = round, .shape = {.length = 4}}; }
  void Ask(uint32_t round, Duration timeout = kWait) {
    drafting_.Await(Plan(round), {.usual = timeout}, /*round_waits=*/true, Now());
  }
  Time Now() { return clock_.Now(); }

  testing::FakeClock clock_;
  DraftingState drafting_{Duration::zero()};
};

TEST_F(DraftingStateTest, ScoresAWholeDraft) {
  EXPECT_FALSE(drafting_.is_attached());
  Ask(1);
  EXPECT_TRUE(drafting_.is_attached());
  EXPECT_TRUE(drafting_.holds_round());
  EXPECT_EQ(drafting_.deadline(), Now() + kWait);
  EXPECT_FALSE(drafting_.Expects(2));
  ASSERT_TRUE(drafting_.Expects(1));
  drafting_.TakeDraft(Chain({5, 6}), Now());
  EXPECT_FALSE(drafting_.Expects(1)) << "it has come";
  EXPECT_FALSE(drafting_.holds_round());
  EXPECT_EQ(drafting_.draft().size(), 2);
  EXPECT_FALSE(drafting_.is_local());
}

TEST_F(DraftingStateTest, TellsWhatFollowedTheLastDraft) {
  Ask(1);
  drafting_.TakeDraft(Chain({5, 6}), Now());
  drafting_.EndRound(/*node=*/1, std::vector<TokenId>{5, 7}, "ab");
  // A plain round and one with a draft of the verifier's own are reported as tokens.
  drafting_.UseOwnDraft({});
  drafting_.EndRound(0, std::vector<TokenId>{8});
  drafting_.UseOwnDraft(Chain({9}));
  EXPECT_TRUE(drafting_.is_local());
  drafting_.EndRound(1, std::vector<TokenId>{9, 10}, "");
  const SessionVerdict decision = drafting_.Decision(3, Plan(4));
  EXPECT_EQ(decision.session, 3u);
  EXPECT_EQ(decision.round, 1u) << "of the last plan sent";
  EXPECT_EQ(decision.node, 1);
  EXPECT_THAT(decision.next, ElementsAre(7, 8, 9, 10));
  EXPECT_EQ(decision.acceptance, "ab");
  EXPECT_EQ(decision.plan.round, 4u);
  Ask(4);
  EXPECT_THAT(drafting_.Decision(3, Plan(5)).next, IsEmpty());
}

TEST_F(DraftingStateTest, NewDrafterIsNotToldAgain) {
  Ask(1);
  drafting_.TakeDraft(Chain({5, 6}), Now());
  drafting_.EndRound(1, std::vector<TokenId>{5, 7}, "ab");
  drafting_.MarkLost(2);
  Ask(2);  // another drafter was opened with the whole text
  const SessionVerdict decision = drafting_.Decision(3, Plan(3));
  EXPECT_EQ(decision.node, 0);
  EXPECT_THAT(decision.next, IsEmpty());
  EXPECT_EQ(decision.acceptance, "");
}

TEST_F(DraftingStateTest, DeadlineUsesTheArrivedPart) {
  Ask(1);
  drafting_.TakePart(Chain({5}));
  EXPECT_TRUE(drafting_.draft().empty()) << "more may come";
  drafting_.Expire(Now());
  EXPECT_EQ(drafting_.draft().size(), 1);
  EXPECT_FALSE(drafting_.is_rested(1)) << "a part is not a draft";
}

TEST_F(DraftingStateTest, RestDoublesAfterEachMiss) {
  uint32_t round = 1;
  for (const uint32_t rest : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 64u}) {
    Ask(round);
    drafting_.Expire(Now());
    EXPECT_FALSE(drafting_.is_rested(round + rest - 1));
    EXPECT_TRUE(drafting_.is_rested(round + rest));
    round += rest;
  }
  Ask(round);
  drafting_.TakeDraft(Chain({5}), Now());
  Ask(++round);
  drafting_.Expire(Now());
  EXPECT_TRUE(drafting_.is_rested(round + 1)) << "a whole draft in time ends the row";
}

TEST_F(DraftingStateTest, RestsWithoutATimeout) {
  Ask(1, Duration::zero());
  EXPECT_TRUE(drafting_.is_unawaited());
  EXPECT_FALSE(drafting_.was_asked());
  EXPECT_FALSE(drafting_.holds_round());
  EXPECT_FALSE(drafting_.Expects(1)) << "the draft only shows the drafter's time";
  EXPECT_FALSE(drafting_.is_rested(1));
  drafting_.EndRound(0, std::vector<TokenId>{8});
  EXPECT_FALSE(drafting_.is_unawaited());
}

TEST_F(DraftingStateTest, UnawaitedRoundTakesEarlyDraft) {
  drafting_.Await(Plan(1), {.usual = kWait}, /*round_waits=*/false, Now());
  EXPECT_TRUE(drafting_.was_asked());
  EXPECT_FALSE(drafting_.holds_round());
  EXPECT_TRUE(drafting_.Expects(1));
  drafting_.EndRound(0, std::vector<TokenId>{8});
  drafting_.UseOwnDraft({});
  EXPECT_FALSE(drafting_.Expects(1)) << "the round is over";
}

TEST_F(DraftingStateTest, SpendsItsExtraWaitOnce) {
  drafting_ = DraftingState(kExtra);
  Ask(1);
  EXPECT_EQ(drafting_.deadline(), Now() + kWait + kExtra);
  clock_.Advance(kWait + kExtra / 4);
  drafting_.TakeDraft(Chain({5}), Now());
  Ask(2);
  EXPECT_EQ(drafting_.deadline(), Now() + kWait + kExtra * 3 / 4);
  clock_.Advance(kWait + kExtra);
  drafting_.Expire(Now());
  Ask(3);
  EXPECT_EQ(drafting_.deadline(), Now() + kWait);
  drafting_ = DraftingState(kExtra);
  drafting_.Await(Plan(1), {.usual = kWait, .trial = true}, true, Now());
  EXPECT_EQ(drafting_.deadline(), Now() + kWait) << "a drafter on trial gets none of it";
}

TEST_F(DraftingStateTest, WaitBeginsAsPlanIsSent) {
  Ask(1);
  clock_.Advance(3 * kWait);
  drafting_.MarkSent(Now());
  EXPECT_EQ(drafting_.plan_sent(), Now());
  EXPECT_EQ(drafting_.deadline(), Now() + kWait);
  drafting_.TakeDraft(Chain({5, 6}), Now());
  const Time sent = Now();
  clock_.Advance(kWait);
  drafting_.MarkSent(Now());
  EXPECT_EQ(drafting_.plan_sent(), sent) << "its draft has come";
}

TEST_F(DraftingStateTest, PostponeKeepsTheExtraWait) {
  drafting_ = DraftingState(kExtra);
  Ask(1);
  clock_.Advance(kWait * 3);
  drafting_.Postpone(Now());
  EXPECT_EQ(drafting_.deadline(), Now() + kWait + kExtra);
  clock_.Advance(kWait);
  drafting_.TakeDraft(Chain({5}), Now());
  Ask(2);
  EXPECT_EQ(drafting_.deadline(), Now() + kWait + kExtra) << "none of the extra wait was spent";
}

TEST_F(DraftingStateTest, ScoresWhatALostDrafterLeft) {
  Ask(1);
  drafting_.TakePart(Chain({5}));
  drafting_.MarkLost(1);
  EXPECT_FALSE(drafting_.is_attached());
  EXPECT_EQ(drafting_.draft().size(), 1);
  EXPECT_FALSE(drafting_.is_rested(1)) << "it was waited for";
}

TEST_F(DraftingStateTest, NextDrafterStartsWithoutMisses) {
  for (const uint32_t round : {1u, 2u}) {
    Ask(round);
    drafting_.Expire(Now());
  }
  EXPECT_FALSE(drafting_.is_rested(3)) << "two rounds after the second miss";
  drafting_.MarkLost(3);
  EXPECT_TRUE(drafting_.is_rested(3));
  Ask(3);
  drafting_.Expire(Now());
  EXPECT_TRUE(drafting_.is_rested(4)) << "one round, as after a first miss";
}

TEST_F(DraftingStateTest, MovedSequenceKeepsItsMisses) {
  Ask(1);
  drafting_.Expire(Now());
  drafting_.Detach();
  EXPECT_FALSE(drafting_.is_attached());
  EXPECT_TRUE(drafting_.is_rested(1)) << "another drafter may be asked at once";
  Ask(2);
  drafting_.Expire(Now());
  EXPECT_FALSE(drafting_.is_rested(3)) << "but it was the second miss in a row";
}

TEST_F(DraftingStateTest, WholeDraftReplacesItsParts) {
  Ask(1);
  drafting_.TakePart(Chain({5}));
  drafting_.TakeDraft(Chain({5, 6}), Now());
  EXPECT_EQ(drafting_.draft().size(), 2);
  drafting_.MarkLost(1);
  EXPECT_EQ(drafting_.draft().size(), 2) << "the part is forgotten";
}

TEST_F(DraftingStateTest, EndRestKeepsOneMiss) {
  for (const uint32_t round : {1u, 2u, 3u}) {
    Ask(round);
    drafting_.Expire(Now());
  }
  drafting_.EndRest();
  EXPECT_TRUE(drafting_.is_rested(3));
  Ask(4);
  drafting_.Expire(Now());
  EXPECT_FALSE(drafting_.is_rested(5));
  EXPECT_TRUE(drafting_.is_rested(6)) << "as after a second miss, not a fourth";
}

TEST_F(DraftingStateTest, RefusalRests) {
  Ask(1);
  drafting_.MarkRefused(1);
  EXPECT_FALSE(drafting_.is_attached());
  EXPECT_FALSE(drafting_.is_rested(1));
  EXPECT_TRUE(drafting_.is_rested(2));
  drafting_.EndRest();
  EXPECT_TRUE(drafting_.is_rested(1));
}

TEST_F(DraftingStateTest, StaysOff) {
  drafting_.TurnOff();
  drafting_.MarkLost(1);
  drafting_.MarkRefused(1);
  EXPECT_TRUE(drafting_.is_off());
  EXPECT_FALSE(drafting_.is_rested(100));
  drafting_.UseOwnDraft(Chain({5}));  // prompt lookup needs no drafter
  EXPECT_EQ(drafting_.draft().size(), 1);
  EXPECT_TRUE(drafting_.is_off());
}

}  // namespace
}  // namespace outrider
