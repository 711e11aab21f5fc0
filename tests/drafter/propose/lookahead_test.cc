#include "drafter/propose/lookahead.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/spec/drafting.h"
#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class LookaheadTest : public PartsTest {
 protected:
  class Hits final : public DraftObserver {
   public:
    void OnVerdictAhead(const HeldSession&, bool hit) override { heard.push_back(hit); }
    std::vector<bool> heard;
  };

  // A verdict that rejects the draft from its first token on.
  static SessionVerdict Rejection(const HeldSession& held, TokenId next) {
    const uint32_t round = held.mirror->session.round();
    return {.session = held.id,
            .round = round,
            .node = 0,
            .next = {next},
            .plan = {.round = round + 1, .shape = Sequences(1, 2)}};
  }

  // Drafts ahead until no guess is left.
  void RunLookahead() {
    for (auto shares = parts_->lookahead.Plan(); !shares.empty();) {
      parts_->depths.Run(shares);
      shares = parts_->lookahead.Plan();
    }
  }

  Hits hits_;
};

TEST_F(LookaheadTest, TakesEachSessionsMostLikelyGuess) {
  Build({.lookahead = {.tokens = 64, .max_rows = 3}});
  VerifierConnection& connection = Connect(1);
  for (const uint64_t id : {2, 1}) Hold(connection, id, 2);
  RunPasses();
  const std::vector<PassShare> shares = parts_->lookahead.Plan();
  ASSERT_THAT(shares, SizeIs(3));
  EXPECT_EQ(shares[0].held->id, 2u) << "its plan is the older one";
  EXPECT_EQ(shares[1].held->id, 1u);
  EXPECT_EQ(shares[2].held->id, 2u) << "the second guess of the first session";
  for (const PassShare& share : shares) {
    ASSERT_NE(share.guess, nullptr);
    EXPECT_EQ(share.tokens, 1);
  }
}

TEST_F(LookaheadTest, NeedsWholeDraftsAndTokenBudget) {
  Build({.lookahead = {.tokens = 64}});
  Hold(Connect(1), 1, 2);
  EXPECT_THAT(parts_->lookahead.Plan(), IsEmpty()) << "still drafting";
  Build({.lookahead = {.tokens = 0}});
  Hold(Connect(1), 1, 1);
  RunPass();
  EXPECT_THAT(parts_->lookahead.Plan(), IsEmpty());
}

TEST_F(LookaheadTest, ReportsWhetherTheOutcomeWasGuessed) {
  Build({.lookahead = {.tokens = 64, .max_rows = 16}}, {}, &hits_);
  VerifierConnection& connection = Connect(1);
  for (const bool hit : {true, false}) {
    HeldSession& held = Hold(connection, hit ? 1 : 2, 2);
    RunPasses();
    const TokenId guessed = held.mirror->session.LikelyStops()[0].next;
    RunLookahead();
    const TokenId drawn = held.mirror->session.draft().token(1);
    const auto mirror =
        parts_->lookahead.TakeMatch(held, Rejection(held, hit ? guessed : drawn)).mirror;
    EXPECT_EQ(mirror != nullptr, hit);
    if (hit) {
      EXPECT_EQ(mirror->session.round(), 2u);
      EXPECT_GT(mirror->session.depths_drawn(), 0);
    }
    EXPECT_FALSE(held.ahead.begun()) << "its guesses are over";
    parts_->sessions.Discard(connection, held.id);
  }
  EXPECT_THAT(hits_.heard, ElementsAre(true, false));
}

// Without a head its rule is the length here, but the verifier goes by the plan.
TEST_F(LookaheadTest, NothingIsEarlyUnderHeadsRule) {
  Build({.lookahead = {.tokens = 64, .max_rows = 16}});
  SessionOpening open = Opening(1, Sequences(1, 2), {3, 1, 4, 1, 5});
  open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 1.f};
  HeldSession& held = Hold(Connect(1), open);
  RunPasses();
  EXPECT_TRUE(held.mirror->session.has_fixed_length());
  EXPECT_THAT(parts_->lookahead.Plan(), IsEmpty());
}

TEST_F(LookaheadTest, SendsWholeDraftsBeforeTheVerdict) {
  Build({.lookahead = {.tokens = 64, .max_rows = 16}});
  VerifierConnection& connection = Connect(1);
  HeldSession& held = Hold(connection, 1, 2);
  RunPasses();
  connection.outbox.clear();
  RunLookahead();
  ASSERT_THAT(connection.outbox, Not(IsEmpty()));
  EXPECT_LE(connection.outbox.size(), static_cast<size_t>(kMaxEarlyDrafts));
  for (const DraftPart& part : connection.outbox) {
    EXPECT_EQ(part.round, 2u);
    EXPECT_FALSE(part.chunk.more);
    EXPECT_THAT(part.chunk.tokens, SizeIs(2));
    EXPECT_THAT(part.chunk.distributions, SizeIs(2));
    ASSERT_TRUE(part.early.has_value());
  }
  const DraftPart& first = connection.outbox.front();
  const auto end = [&](int length) {
    return SessionVerdict{.session = 1,
                          .round = 1,
                          .node = first.early->node,
                          .next = {first.early->next},
                          .plan = {.round = 2, .shape = Sequences(1, length)}};
  };
  const SessionLookahead::Hit hit = parts_->lookahead.TakeMatch(held, end(2));
  ASSERT_NE(hit.mirror, nullptr);
  EXPECT_TRUE(hit.is_sent);
  EXPECT_EQ(hit.mirror->session.draft().Path(hit.mirror->session.draft().size()),
            first.chunk.tokens);
}

TEST_F(LookaheadTest, SendsAgainForAnotherPlan) {
  Build({.lookahead = {.tokens = 64, .max_rows = 16}});
  VerifierConnection& connection = Connect(1);
  for (const int length : {1, 3}) {
    HeldSession& held = Hold(connection, 1, 2);
    RunPasses();
    connection.outbox.clear();
    RunLookahead();
    ASSERT_THAT(connection.outbox, Not(IsEmpty()));
    const RoundEnd end = *connection.outbox.front().early;
    const SessionLookahead::Hit hit =
        parts_->lookahead.TakeMatch(held, {.session = 1,
                                           .round = 1,
                                           .node = end.node,
                                           .next = {end.next},
                                           .plan = {.round = 2, .shape = Sequences(1, length)}});
    ASSERT_NE(hit.mirror, nullptr);
    EXPECT_FALSE(hit.is_sent);
    EXPECT_TRUE(hit.mirror->session.has_chunk()) << "all of it is still to be sent";
    EXPECT_EQ(hit.mirror->session.PeekChunk().tokens.size(), std::min<size_t>(length, 2));
    parts_->sessions.Discard(connection, held.id);
  }
}

// Nobody waits for them, and the session has its draft.
TEST_F(LookaheadTest, FailedPassOnlyEndsItsGuesses) {
  Build({.lookahead = {.tokens = 64, .max_rows = 16}});
  VerifierConnection& connection = Connect(1);
  HeldSession& held = Hold(connection, 1, 2);
  RunPasses();
  connection.outbox.clear();
  const std::vector<PassShare> shares = parts_->lookahead.Plan();
  ASSERT_GT(shares.size(), 1u) << "several guesses of one session";
  model_->FailNextForward(Internal("broken"));
  parts_->depths.Run(shares);
  EXPECT_THAT(connection.outbox, IsEmpty());
  EXPECT_EQ(parts_->sessions.size(), 1);
  EXPECT_THAT(parts_->lookahead.Plan(), IsEmpty());
  const TokenId drawn = held.mirror->session.draft().token(1);
  EXPECT_EQ(parts_->lookahead.TakeMatch(held, Rejection(held, drawn)).mirror, nullptr);
}

TEST_F(LookaheadTest, ReportsNothingWhereNothingWasGuessed) {
  Build({.lookahead = {.tokens = 64}}, {}, &hits_);
  HeldSession& held = Hold(Connect(1), 1, 1);
  RunPass();
  EXPECT_EQ(parts_->lookahead.TakeMatch(held, Rejection(held, 7)).mirror, nullptr);
  EXPECT_THAT(hits_.heard, IsEmpty());
}

// The gate opens and closes depending on the time of consecutive rounds.
TEST_F(LookaheadTest, TimesRoundsFromDraftToDraft) {
  Build({.lookahead = {.tokens = 64}});
  HeldSession& held = Hold(Connect(1), 1, 1);
  EXPECT_FALSE(held.drafted.has_value());
  parts_->lookahead.OnDraftComplete(held, clock_.Now());
  EXPECT_EQ(held.drafted, clock_.Now());
  SessionVerdict verdict = Rejection(held, 7);
  (void)parts_->lookahead.TakeMatch(held, verdict);
  EXPECT_TRUE(held.drafted.has_value());
  verdict.plan.round = 5;  // rounds 2 to 4 had no draft from this drafter
  (void)parts_->lookahead.TakeMatch(held, verdict);
  EXPECT_FALSE(held.drafted.has_value());
}

TEST_F(LookaheadTest, StopsWhereRoundsGetLonger) {
  Build({.lookahead = {.tokens = 64}});
  HeldSession& held = Hold(Connect(1), 1, 1);
  RunPass();
  int open = 0;
  constexpr int kRounds = 8000;
  for (int i = 0; i < kRounds; ++i) {
    const bool ahead = !parts_->lookahead.Plan().empty();
    held.ahead = {};
    if (2 * i >= kRounds) open += ahead ? 1 : 0;
    clock_.Advance(std::chrono::milliseconds(ahead ? 20 : 10));
    parts_->lookahead.OnDraftComplete(held, clock_.Now());
  }
  EXPECT_LT(open, kRounds / 2 / 4);
  EXPECT_GT(open, 0) << "but for a trial now and then";
}

}  // namespace
}  // namespace outrider
