#include "verifier/control/adaptive.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/verifier/control/arms.h"

namespace outrider {
namespace {

// Steps of 20 ms plus half a millisecond per row.
void ObserveSteps(CostModel* costs) {
  for (const double rows : {1, 64}) costs->ObserveStep(rows, 0, 0.020 + 0.0005 * rows);
}

// Such steps, and drafts of 2 ms per token.
class AdaptiveTest : public ::testing::Test {
 protected:
  explicit AdaptiveTest(bool shared = true) : policy_(arms_, costs_, shared) {
    for (int i = 0; i < 8; ++i) ObserveSteps(&costs_);
    for (const int proposer : {0, 1})
      costs_.ObserveDraft({.proposer = proposer, .sequences = 1}, 4, 0.008);
  }
  double SecondsOf(int arm) const {
    const ArmSet::Facts& f = arms_.facts(arm);
    return 0.020 + 0.0005 * f.rows + 0.002 * f.length + (f.sequences > 0 ? 0.002 : 0);
  }
  // `accepted(arm)` gives each round's accepted tokens. Returns the last arm.
  template <class Accepted>
  int Play(PolicySession& session, int rounds, Accepted accepted, Context context = {}) {
    context.streams = streams_;
    int arm = -1;
    for (int t = 0; t < rounds; ++t) {
      const Choice choice = session.Choose(context);
      arm = choice.arm;
      ++pulls_[static_cast<size_t>(arm)];
      const int kept = std::min(accepted(arm), arms_.facts(arm).length);
      const double slower = arms_.facts(arm).sequences > 0 ? slowness_ : 1;
      session.Observe(choice,
                      {.accepted = kept, .emitted = kept + 1, .seconds = slower * SecondsOf(arm)});
    }
    return arm;
  }

  const ArmSet arms_ = MakeArms({Chain("a2", 2, "a"), Chain("a4", 4, "a"), Chain("a8", 8, "a"),
                                 Chain("b4", 4, "b"), Plain()});
  CostModel costs_{arms_.proposers()};
  Adaptive policy_;
  const StreamEstimate streams_[3] = {
      {.round_trip = 0.002, .draft_depth = 0.002}, {.round_trip = 0.002, .draft_depth = 0.002}, {}};
  int pulls_[5] = {};
  double slowness_ = 1;  // factor of rounds with drafts
};

TEST_F(AdaptiveTest, ChoosesLongestWhenAllIsAccepted) {
  const auto session = policy_.Open();
  EXPECT_EQ(Play(*session, 40, [](int arm) { return arm == 3 ? 0 : 8; }), 2);
  EXPECT_GT(pulls_[2], 30);
}

TEST_F(AdaptiveTest, DecodesPlainlyWhereNothingIsAccepted) {
  const auto session = policy_.Open();
  EXPECT_EQ(Play(*session, 400, [](int) { return 0; }), 4);
  EXPECT_GT(pulls_[4], 350);
  // Exploration stays within its budget: less than 3 % of the tokens served plus the 256 that a
  // request of unknown length is assumed to have.
  EXPECT_LT(policy_.deficit(), 0.03 * (400 + 256));
}

TEST_F(AdaptiveTest, LeavesProposerAfterTextChanges) {
  const auto session = policy_.Open();
  EXPECT_EQ(Play(*session, 60, [](int arm) { return arm == 3 ? 0 : 8; }), 2);
  const int before = pulls_[3];
  Play(*session, 60, [](int arm) { return arm == 3 ? 4 : 0; });
  EXPECT_GT(pulls_[3] - before, 40);
}

TEST_F(AdaptiveTest, LongRoundTeachesShorterLengths) {
  const auto session = policy_.Open();
  // Always two are accepted: length 2 is best, and two rounds of 8 are enough to find out.
  int rounds = 0;
  for (; rounds < 12; ++rounds) {
    Context only_long{.allowed = ArmSet::Bit(2), .streams = streams_};
    const Choice choice = session->Choose(only_long);
    const int accepted = std::min(2, arms_.facts(choice.arm).length);
    session->Observe(
        choice, {.accepted = accepted, .emitted = accepted + 1, .seconds = SecondsOf(choice.arm)});
  }
  const Choice choice = session->Choose(
      {.allowed = ArmSet::Bit(0) | ArmSet::Bit(1) | ArmSet::Bit(2), .streams = streams_});
  EXPECT_LT(arms_.facts(choice.arm).length, 8);
  EXPECT_GT(arms_.facts(choice.arm).length, 0);
}

TEST_F(AdaptiveTest, NewSessionStartsFromSharedStatistics) {
  {
    const auto first = policy_.Open();
    Play(*first, 20, [](int) { return 0; }, {.allowed = 0b00111});
    Play(*first, 100, [](int arm) { return arm == 3 ? 4 : 0; });
  }
  EXPECT_GT(MeanLevel(policy_.Prior(arms_.facts(3).family)), 0.95);
  EXPECT_LT(MeanLevel(policy_.Prior(arms_.facts(0).family)), 0.5);
  const auto second = policy_.Open();
  EXPECT_EQ(second->Choose({.streams = streams_}).arm, 3);
}

TEST_F(AdaptiveTest, LoadMakesDraftsDearer) {
  const auto session = policy_.Open();
  EXPECT_NE(Play(*session, 60, [](int arm) { return arm == 3 ? 0 : 2; }), 4);
  // With 400 sequences in a step a row costs the verifier more than the step itself.
  EXPECT_EQ(session->Choose({.step_sessions = 400, .streams = streams_}).arm, 4);
}

TEST_F(AdaptiveTest, LastTokensNeedNoLongDraft) {
  const auto session = policy_.Open();
  Play(*session, 40, [](int arm) { return arm == 3 ? 0 : 8; });
  EXPECT_EQ(session->Choose({.remaining = 100, .streams = streams_}).arm, 2);
  EXPECT_EQ(session->Choose({.remaining = 1, .streams = streams_}).arm, 4);
  EXPECT_LT(arms_.facts(session->Choose({.remaining = 3, .streams = streams_}).arm).length, 8);
}

TEST_F(AdaptiveTest, DistantDrafterDraftsLastTokensToo) {
  const StreamEstimate far[1] = {{.round_trip = 0.05, .draft_depth = 0.002}};
  const auto session = policy_.Open();
  Context context{.allowed = 0b10111, .streams = far};
  for (int t = 0; t < 60; ++t) {
    const Choice choice = session->Choose(context);
    const int accepted = arms_.facts(choice.arm).length;
    session->Observe(choice,
                     {.accepted = accepted, .emitted = accepted + 1, .seconds = choice.seconds});
  }
  // One round of 80 ms, or five of 20 ms.
  context.remaining = 5;
  EXPECT_EQ(session->Choose(context).arm, 1);
  context.remaining = 2;
  EXPECT_EQ(session->Choose(context).arm, 4);
}

TEST_F(AdaptiveTest, CatchingUpMustPay) {
  const auto session = policy_.Open();
  const auto accepts = [](int arm) { return arm == 3 ? 4 : 3; };
  EXPECT_EQ(Play(*session, 200, accepts), 3);
  StreamEstimate streams[2] = {{.round_trip = 0.002, .draft_depth = 0.002, .catch_up_token = 0.01},
                               {.round_trip = 0.002, .draft_depth = 0.002, .catch_up_token = 0.01}};
  // Drafter b takes longer now, and a has several hundred tokens to catch up.
  streams[1].round_trip = 0.02;
  EXPECT_EQ(session->Choose({.streams = streams}).arm, 3);
  streams[0].catch_up_token = 0;
  EXPECT_NE(session->Choose({.streams = streams}).arm, 3);
}

TEST_F(AdaptiveTest, MeasuresSpeedThatModelMisses) {
  const auto session = policy_.Open();
  // Rounds of a take four times the modelled time: plain decoding is faster.
  const Context context{.allowed = 0b10111, .streams = streams_};
  int arm = -1;
  for (int t = 0; t < 80; ++t) {
    const Choice choice = session->Choose(context);
    arm = choice.arm;
    const bool plain = arms_.arm(arm).plain();
    const int accepted = plain ? 0 : 2;
    session->Observe(choice, {.accepted = accepted,
                              .emitted = accepted + 1,
                              .seconds = (plain ? 1 : 4) * SecondsOf(arm)});
  }
  EXPECT_EQ(arm, 4);
}

TEST_F(AdaptiveTest, RetriesProposerAfterSlowPhase) {
  const auto session = policy_.Open();
  const auto four = [](int arm) { return arm == 3 ? 0 : 4; };
  ASSERT_NE(Play(*session, 40, four), 4);
  slowness_ = 6;
  ASSERT_EQ(Play(*session, 200, four), 4);
  slowness_ = 1;
  EXPECT_NE(Play(*session, 1000, four), 4);
}

// As if a stop rule ended most drafts before their planned length.
TEST_F(AdaptiveTest, SlowPhaseFadesInRepeatedRounds) {
  const auto session = policy_.Open();
  const auto all = [](int) { return 8; };
  slowness_ = 10;
  ASSERT_EQ(Play(*session, 40, all), 4);
  slowness_ = 1;
  const auto seems_faster = [&] {
    const Choice choice = session->Choose({.streams = streams_});
    session->Observe(choice, {.aborted = true});
    return choice.best_speed * choice.plain_seconds > 1.5;
  };
  EXPECT_FALSE(seems_faster());
  for (int i = 0; i < 400; ++i) session->ObserveRepeated();
  EXPECT_TRUE(seems_faster());
}

// A text whose beginning is unlike all others: as it goes on, that counts for less, also while
// plain rounds repeat without a choice.
TEST_F(AdaptiveTest, PoorBeginningFadesInRepeatedRounds) {
  for (int i = 0; i < 10; ++i) {
    const auto earlier = policy_.Open();
    Play(*earlier, 40, [](int arm) { return arm == 3 ? 0 : 8; });
  }
  const auto session = policy_.Open();
  Play(*session, 12, [](int) { return 0; }, {.allowed = 0b00111});
  const auto speed = [&] {
    const Choice choice = session->Choose({.allowed = 0b00111, .streams = streams_});
    session->Observe(choice, {.aborted = true});
    return choice.best_speed * choice.plain_seconds;
  };
  const double at_first = speed();
  EXPECT_LT(at_first, 1.1);
  for (int i = 0; i < 60; ++i) session->ObserveRepeated();
  EXPECT_GT(speed(), 2 * at_first);
}

TEST_F(AdaptiveTest, FastRoundsAreChargedAsMeasured) {
  const auto session = policy_.Open();
  slowness_ = 0.6;
  int round = 0;
  Play(*session, 400, [&](int) { return ++round % 2; }, {.allowed = ArmSet::Bit(2)});
  EXPECT_GT(pulls_[2], 350) << "1.5 tokens a round of 1.24 plain ones";
  EXPECT_LT(policy_.deficit(), 0);
}

// The time of a measured plain round beyond its step is not charged to drafts.
TEST_F(AdaptiveTest, ComparesWithMeasuredPlainRounds) {
  const auto session = policy_.Open();
  int round = 0;
  double charged = 0;
  for (int t = 0; t < 400; ++t) {
    const bool plain = t % 4 == 0;
    const Choice choice =
        session->Choose({.allowed = plain ? ArmMask{0} : ArmSet::Bit(0), .streams = streams_});
    const int accepted = choice.arm == 0 ? ++round % 2 : 0;
    charged += (1.3 * SecondsOf(choice.arm)) / (1.3 * SecondsOf(4)) - (1 + accepted);
    session->Observe(
        choice,
        {.accepted = accepted, .emitted = accepted + 1, .seconds = 1.3 * SecondsOf(choice.arm)});
  }
  ASSERT_LT(charged, -40);
  EXPECT_LT(policy_.deficit(), charged / 2) << "all but while that was not yet known";
}

TEST_F(AdaptiveTest, ChargesRepeatedStallsOnly) {
  const auto session = policy_.Open();
  double lost = 0;  // in plain rounds
  const auto stall = [&] {
    const Choice choice = session->Choose({.allowed = ArmSet::Bit(2), .streams = streams_});
    const double seconds = 10 * SecondsOf(2);
    session->Observe(choice, {.accepted = 8, .emitted = 9, .seconds = seconds});
    if (choice.arm == 2) lost += seconds / choice.plain_seconds - 9;
  };
  stall();
  EXPECT_GT(lost, 10);
  EXPECT_LT(policy_.deficit(), 2);
  for (int i = 0; i < 400; ++i) stall();
  EXPECT_GT(policy_.deficit(), lost - 40) << "what is forgiven is bounded";
  EXPECT_LT(policy_.deficit(), 0.03 * (9 * 400 + 256));
}

TEST_F(AdaptiveTest, CutAndAbortedRoundsTeachNothing) {
  const auto session = policy_.Open();
  Play(*session, 30, [](int arm) { return arm == 3 ? 0 : 8; });
  const Belief a = policy_.Prior(0), b = policy_.Prior(arms_.facts(3).family);
  const double deficit = policy_.deficit();
  const Choice reference = session->Choose({.streams = streams_});
  session->Observe(reference, {.aborted = true});
  for (int i = 0; i < 50; ++i) {
    const Choice choice = session->Choose({.streams = streams_});
    EXPECT_EQ(choice.arm, reference.arm);
    EXPECT_EQ(choice.seconds, reference.seconds);
    EXPECT_EQ(choice.tokens, reference.tokens);
    Outcome outcome{.accepted = 0, .emitted = 1, .seconds = 100};
    (i % 2 == 0 ? outcome.truncated : outcome.aborted) = true;
    session->Observe(choice, outcome);
  }
  EXPECT_EQ(policy_.Prior(0), a);
  EXPECT_EQ(policy_.Prior(arms_.facts(3).family), b);
  EXPECT_EQ(policy_.deficit(), deficit);
  EXPECT_EQ(policy_.pending(), 0);
}

// The last round of a text may accept its end, and then adds no token of the target's own.
TEST_F(AdaptiveTest, LedgerCountsEmittedTokens) {
  double deficits[2] = {};
  for (const int own : {0, 1}) {
    Adaptive policy(arms_, costs_, true);
    const auto session = policy.Open();
    const Choice choice = session->Choose({.allowed = 0b00001, .streams = streams_});
    ASSERT_EQ(choice.arm, 0);
    session->Observe(choice, {.accepted = 2, .emitted = 2 + own, .seconds = SecondsOf(0)});
    deficits[own] = policy.deficit();
  }
  EXPECT_NEAR(deficits[0] - deficits[1], 1, 1e-9);
}

TEST_F(AdaptiveTest, ImpossibleCountsTeachNothing) {
  const Choice choice{.arm = 1};
  EXPECT_TRUE(Teaches(arms_, choice, {.accepted = 3, .emitted = 3}));
  EXPECT_TRUE(Teaches(arms_, choice, {.accepted = 3, .emitted = 4}));
  for (const int emitted : {0, 5}) {
    EXPECT_FALSE(Teaches(arms_, choice, {.accepted = 3, .emitted = emitted})) << emitted;
  }
}

TEST_F(AdaptiveTest, TimesThatAreNoneAreSafe) {
  const auto session = policy_.Open();
  const double bad[] = {std::nan(""), 0, -1, std::numeric_limits<double>::infinity()};
  for (int i = 0; i < 100; ++i) {
    const Choice choice = session->Choose({.streams = streams_});
    ASSERT_TRUE(choice.arm >= 0 && choice.arm < arms_.size());
    EXPECT_GT(choice.seconds, 0);
    const int accepted = arms_.facts(choice.arm).length;
    session->Observe(choice,
                     {.accepted = accepted, .emitted = accepted + 1, .seconds = bad[i % 4]});
  }
  // The accepted tokens still counted.
  EXPECT_EQ(session->Choose({.streams = streams_}).arm, 2);
}

// Nothing is known about either: there is no reason to prefer the other one when they look equal.
TEST(Adaptive, TriesFastestArmFirst) {
  const ArmSet arms = MakeArms({Chain("a", 4, "a"), Chain("b", 4, "b"), Plain()});
  CostModel costs(arms.proposers());
  ObserveSteps(&costs);
  const StreamEstimate streams[2] = {{.round_trip = 0.002, .draft_depth = 0.002},
                                     {.round_trip = 0.002, .draft_depth = 0.002}};
  Adaptive policy(arms, costs, false);
  const auto session = policy.Open();
  const Choice first = session->Choose({.remaining = 512, .streams = streams});
  EXPECT_EQ(first.arm, 0);
  session->Observe(first, {.accepted = 0, .emitted = 1, .seconds = first.seconds});
  EXPECT_EQ(session->Choose({.remaining = 511, .streams = streams}).arm, 1);
}

// A drafter of which nothing is known. Its round loses 4.4 plain ones if nothing is accepted: 3 %
// of 512 tokens allow that, of 128 they do not.
class AdaptiveBudget : public ::testing::Test {
 protected:
  AdaptiveBudget() { ObserveSteps(&costs_); }

  const ArmSet arms_ = MakeArms({Chain("a", 16), Plain()});
  CostModel costs_{arms_.proposers()};
  const StreamEstimate streams_[1] = {{.round_trip = 0.05, .draft_depth = 0.002}};
};

TEST_F(AdaptiveBudget, TriesUnknownDrafterWithinBudget) {
  Adaptive policy(arms_, costs_, false);
  EXPECT_EQ(policy.Open()->Choose({.remaining = 128, .streams = streams_}).arm, 1);
  EXPECT_EQ(policy.Open()->Choose({.remaining = 512, .streams = streams_}).arm, 0);
}

// They are served tokens like any others, so the budget grows with each of them.
TEST_F(AdaptiveBudget, RepeatedPlainRoundsRaiseBudget) {
  Adaptive policy(arms_, costs_, true);
  const auto session = policy.Open();
  const Choice plain = session->Choose({.remaining = 128, .streams = streams_});
  ASSERT_EQ(plain.arm, 1);
  session->Observe(plain, {.accepted = 0, .emitted = 1, .seconds = plain.seconds});
  for (int i = 0; i < 384; ++i) session->ObserveRepeated();
  EXPECT_EQ(session->Choose({.remaining = 128, .streams = streams_}).arm, 0);
}

TEST(Adaptive, WorksBeforeAnythingWasMeasured) {
  const ArmSet arms = MakeArms({Chain("a", 4), Plain()});
  CostModel costs(arms.proposers());
  Adaptive policy(arms, costs, true);
  const auto session = policy.Open();
  for (int i = 0; i < 20; ++i) {
    const Choice choice = session->Choose({});
    ASSERT_TRUE(choice.arm == 0 || choice.arm == 1);
    session->Observe(choice, {.accepted = 0, .emitted = 1});
  }
}

}  // namespace
}  // namespace outrider
