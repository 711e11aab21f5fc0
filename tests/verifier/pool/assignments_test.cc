#include "verifier/pool/assignments.h"

#include <gmock/gmock.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kVocab = 100;

// Compared with a plain map from session to drafter.
TEST(Assignments, CountWhatTheyHold) {
  Assignments assignments;
  std::map<uint64_t, uint64_t> holders;
  std::mt19937 random(7);
  const auto below = [&random](uint32_t n) { return random() % n; };
  for (int step = 0; step < 2000; ++step) {
    const uint64_t session = below(20), drafter = below(4);
    const Assignment* const found = assignments.Find(session);
    ASSERT_EQ(found != nullptr, holders.contains(session));
    if (below(50) == 0) {
      std::vector<uint64_t> lost;
      for (const auto& [held, holder] : holders) {
        if (holder == drafter) lost.push_back(held);
      }
      ASSERT_EQ(assignments.RemoveAllOf(drafter), lost);
      for (const uint64_t held : lost) holders.erase(held);
    } else if (found == nullptr) {
      assignments.Add(session, {.drafter = drafter});
      holders[session] = drafter;
    } else {
      ASSERT_EQ(found->drafter, holders.at(session));
      assignments.Remove(session);
      holders.erase(session);
    }
    for (uint64_t d = 0; d < 4; ++d) {
      std::vector<uint64_t> held;
      for (const auto& [id, holder] : holders) {
        if (holder == d) held.push_back(id);
      }
      ASSERT_EQ(assignments.CountOf(d), static_cast<int>(held.size()));
      ASSERT_EQ(assignments.SessionsOf(d), held);
    }
  }
}

TEST(Assignments, EmptyDrafterHoldsNothing) {
  Assignments assignments;
  assignments.Add(5, {.drafter = 1});
  EXPECT_EQ(assignments.CountOf(2), 0);
  EXPECT_THAT(assignments.SessionsOf(2), IsEmpty());
  EXPECT_THAT(assignments.RemoveAllOf(2), IsEmpty());
  EXPECT_THAT(assignments.SessionsOf(1), ElementsAre(5));
}

TEST(AssignmentTest, CountsPartsAndTokens) {
  const Time sent{std::chrono::seconds(1)};
  Assignment assignment{.drafter = 1,
                        .tokens = 3,
                        .asked = {.plan = {.round = 1, .shape = Sequences(1, 4)}, .sent = sent},
                        .kind = DraftKind::kArgmax};
  EXPECT_EQ(assignment.PartsToCome(), 4u);
  const auto part = [](TokenId token, bool more) {
    return DraftChunk{.tokens = {token}, .more = more};
  };
  ASSERT_TRUE(assignment.TakePart(part(5, true), kVocab).ok());
  ASSERT_TRUE(assignment.TakePart(part(6, true), kVocab).ok());
  EXPECT_EQ(assignment.PartsToCome(), 2u);
  assignment.BeginRound(
      {.round = 1, .node = 2, .next = {7}, .plan = {.round = 2, .shape = Sequences(1, 1)}},
      /*accepted=*/2, sent + std::chrono::seconds(1));
  EXPECT_EQ(assignment.tokens, 6);
  EXPECT_TRUE(assignment.asked.draft.empty());
  EXPECT_EQ(assignment.PartsToCome(), 1u);
  EXPECT_EQ(assignment.EarlyToCome(), 2u * kMaxEarlyDrafts);
  EXPECT_FALSE(assignment.reads) << "its draft had begun";
  ASSERT_TRUE(assignment.TakePart(part(7, false), kVocab).ok());
  EXPECT_EQ(assignment.PartsToCome(), 0u);
  const Status after = assignment.TakePart(part(8, false), kVocab);
  EXPECT_EQ(after.message(), "a part after the last one");
}

TEST(AssignmentTest, RemembersThePlanThatWasOverdue) {
  const Time sent{std::chrono::seconds(1)};
  Assignment assignment{.drafter = 1,
                        .asked = {.plan = {.round = 1, .shape = Sequences(1, 4)}, .sent = sent},
                        .reads = false};
  assignment.BeginRound({.round = 1,
                         .next = std::vector<TokenId>(Assignment::kManyTokens + 1, 7),
                         .plan = {.round = 2, .shape = Sequences(1, 4)}},
                        0, sent + std::chrono::seconds(1));
  EXPECT_EQ(assignment.overdue.round, 1u);
  EXPECT_EQ(assignment.overdue.sent, sent);
  EXPECT_TRUE(assignment.reads) << "many tokens are new to it";
}

class EarlyDrafts : public ::testing::Test {
 protected:
  static DraftPart EarlyPart(uint32_t round, RoundEnd end, TokenId token = 5) {
    return {.round = round, .chunk = {.tokens = {token}}, .early = end};
  }
  // `node` of round 1's draft is accepted, then token 7.
  static SessionVerdict Decision(int node, int length = 1) {
    return {
        .round = 1, .node = node, .next = {7}, .plan = {.round = 2, .shape = Sequences(1, length)}};
  }

  Assignment assignment_{.drafter = 1,
                         .asked = {.plan = {.round = 1, .shape = Sequences(1, 1)}},
                         .kind = DraftKind::kArgmax};
};

TEST_F(EarlyDrafts, AnswerPlanOfGuessedEnd) {
  ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 0, .next = 7}, 5), kVocab).ok());
  ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = 7}, 6), kVocab).ok());
  assignment_.BeginRound(Decision(1), 1, Time());
  ASSERT_TRUE(assignment_.asked.complete);
  EXPECT_THAT(assignment_.asked.draft.Path(1), ElementsAre(6));
  EXPECT_TRUE(assignment_.early.empty());
}

TEST_F(EarlyDrafts, MayComeAfterTheVerdict) {
  assignment_.BeginRound(Decision(1), 1, Time());
  ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 0, .next = 7}, 5), kVocab).ok());
  EXPECT_FALSE(assignment_.asked.complete);
  ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = 7}, 6), kVocab).ok());
  ASSERT_TRUE(assignment_.asked.complete);
  EXPECT_THAT(assignment_.asked.draft.Path(1), ElementsAre(6));
}

TEST_F(EarlyDrafts, DropDraftsOfOtherEnds) {
  for (const RoundEnd end : {RoundEnd{.node = 1, .next = 8}, RoundEnd{.node = 0, .next = 7}}) {
    ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, end), kVocab).ok());
  }
  assignment_.BeginRound(Decision(1), 1, Time());
  EXPECT_FALSE(assignment_.asked.complete);
  EXPECT_TRUE(assignment_.asked.draft.empty());
}

TEST_F(EarlyDrafts, AreNoUseForAnotherPlan) {
  ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = 7}), kVocab).ok());
  assignment_.BeginRound(Decision(1, /*length=*/2), 1, Time());
  EXPECT_FALSE(assignment_.asked.complete);
  // Nor with an early draft that crossed the verdict, whatever it looks like.
  ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = 7}), kVocab).ok());
  EXPECT_FALSE(assignment_.asked.complete);
}

TEST_F(EarlyDrafts, AreWholeValidAndFew) {
  DraftPart part = EarlyPart(2, {.node = 1, .next = 7});
  part.chunk.more = true;
  EXPECT_FALSE(assignment_.TakeEarly(part, kVocab).ok());
  EXPECT_FALSE(assignment_.TakeEarly({.round = 2, .early = RoundEnd()}, kVocab).ok());
  EXPECT_FALSE(assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = 7}, kVocab), kVocab).ok());
  for (int i = 0; i < kMaxEarlyDrafts; ++i) {
    EXPECT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = i}), kVocab).ok());
  }
  const Status many = assignment_.TakeEarly(EarlyPart(2, {.node = 1, .next = 8}), kVocab);
  EXPECT_EQ(many.message(), "more than 4 early drafts");
}

TEST_F(EarlyDrafts, AreNotExpectedOfClosedSession) {
  const RoundEnd end{.node = 1, .next = 7};
  EXPECT_FALSE(assignment_.Expects(EarlyPart(1, end))) << "the session's first plan";
  EXPECT_TRUE(assignment_.Expects(EarlyPart(2, end)));
  EXPECT_FALSE(assignment_.Expects(EarlyPart(3, end)));
  assignment_.BeginRound(Decision(1), 1, Time());
  EXPECT_TRUE(assignment_.Expects(EarlyPart(2, end)));
  for (int i = 0; i < kMaxEarlyDrafts; ++i) {
    ASSERT_TRUE(assignment_.TakeEarly(EarlyPart(2, {.node = 0, .next = 7}), kVocab).ok());
  }
  EXPECT_FALSE(assignment_.Expects(EarlyPart(2, end))) << "as many as may come have come";
}

}  // namespace
}  // namespace outrider
