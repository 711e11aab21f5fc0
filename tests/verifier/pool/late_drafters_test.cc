// What late drafts do to their session and to their drafter.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/verifier/pool/pool_fixture.h"

namespace outrider {
namespace {

// Rounds of a session that its drafter answers in time, or not.
class LateDrafts : public Pool {
 protected:
  void Plan(uint64_t session) {
    const uint32_t round = ++rounds_[session];
    Decide(session, round);
    clock_.Advance(kTick);
  }
  // A part with `more` is not the last one.
  void SendDraft(uint64_t drafter, uint64_t session, bool more = false, uint32_t rounds_ago = 0) {
    const uint32_t round = rounds_[session] + 1 - rounds_ago;
    pool_.OnDrafts(drafter, {{.session = session, .round = round, .chunk = OneToken(more)}}, 0);
  }
  // Whether the session is reassigned, now that its draft is late.
  bool MovesLate(uint64_t session) {
    pool_.MarkLate(session);
    return pool_.ReassignSession(session);
  }
  bool Suspended() { return pool_.roster().Snapshot()[0].silent; }
  // Opens a session that has had drafts.
  void StartDrafting(uint64_t drafter, uint64_t session) {
    Open(session);
    rounds_[session] = 0;
    ASSERT_EQ(pool_.DrafterName(session), drafter == 1 ? "a" : "b");
    SendDraft(drafter, session);
    for (int i = 0; i < 3; ++i) {
      Plan(session);
      SendDraft(drafter, session);
    }
  }

  std::map<uint64_t, uint32_t> rounds_;
};

TEST_F(LateDrafts, SilentDrafterLosesSessionsAtOnce) {
  const auto a = JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  JoinShown(2, Hello("b"));
  Plan(1);
  EXPECT_TRUE(MovesLate(1));
  EXPECT_EQ(a->closed, std::vector<uint64_t>{1});
  EXPECT_EQ(pool_.DrafterName(1), "");
  Open(1);
  EXPECT_EQ(pool_.DrafterName(1), "b");
  // No session goes there until it is time to try it.
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "b");
  pool_.roster().OnLoad(1, {.sessions = 0});
  EXPECT_FALSE(Open(3)) << "what it says of itself is not a draft";
}

// A pool with one place, and a drafter that never drafts.
class FullPool : public Pool {
 protected:
  FullPool() { full_.set_consumer(&consumer_); }

  Status Attach(uint64_t id, const std::string& name) {
    return full_.roster().Join(id, Hello(name), link_ = std::make_shared<RecordingLink>());
  }
  // Asks it for drafts until it counts as silent. The last session stays open.
  void Silence() {
    const auto open = [this] {
      full_.Open({.session = ++session_, .tokens = tokens_, .plan = {.shape = Sequences(1, 4)}});
    };
    open();
    full_.Close(session_);
    clock_.Advance(std::chrono::seconds(1));
    EXPECT_FALSE(full_.roster().Snapshot().at(0).silent);
    open();
    EXPECT_TRUE(full_.roster().Snapshot().at(0).silent);
  }
  std::string Attached() { return full_.roster().Snapshot().at(0).name; }

  DrafterPool full_{{.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112},
                    {.mass = 0.999f, .max_entries = 32},
                    nullptr,
                    &clock_,
                    {.max_drafters = 1}};
  std::shared_ptr<RecordingLink> link_;  // of the last to attach
  uint64_t session_ = 0;
};

TEST_F(FullPool, SilentDrafterGivesItsPlace) {
  ASSERT_TRUE(Attach(1, "slow").ok());
  const auto slow = link_;
  clock_.Advance(kLongTime);
  EXPECT_FALSE(Attach(2, "new").ok()) << "nobody has asked it for drafts";
  Silence();
  clock_.Advance(std::chrono::seconds(58));
  EXPECT_EQ(Attach(3, "new").code(), Code::kResourceExhausted);
  EXPECT_FALSE(slow->is_closed);
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_TRUE(Attach(4, "new").ok());
  EXPECT_EQ(slow->closed_with.code(), Code::kResourceExhausted) << "which older drafters know";
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{session_});
  EXPECT_EQ(Attached(), "new");
}

TEST_F(FullPool, SlowDraftersTakeTurnsEachMinute) {
  ASSERT_TRUE(Attach(1, "a").ok());
  Silence();
  clock_.Advance(std::chrono::minutes(1));
  ASSERT_TRUE(Attach(2, "b").ok());
  Silence();
  clock_.Advance(std::chrono::seconds(58));
  EXPECT_FALSE(Attach(3, "a").ok());
  EXPECT_EQ(Attached(), "b");
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_TRUE(Attach(4, "a").ok());
  EXPECT_EQ(Attached(), "a");
}

TEST_F(FullPool, VerifiersOwnDrafterKeepsItsPlace) {
  class OwnLink final : public RecordingLink {
    bool CanGoElsewhere() const override { return false; }
  };
  ASSERT_TRUE(full_.roster().Join(1, Hello("embedded"), std::make_shared<OwnLink>()).ok());
  Silence();
  clock_.Advance(kLongTime);
  EXPECT_FALSE(Attach(2, "new").ok());
  EXPECT_EQ(Attached(), "embedded");
}

TEST_F(LateDrafts, OftenLateSessionMoves) {
  const auto a = JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  StartDrafting(1, 2);
  Join(2, Hello("b"));
  Plan(2);
  Plan(1);
  SendDraft(1, 2);
  EXPECT_FALSE(MovesLate(1));
  Plan(1);
  pool_.roster().OnLoad(1, {.sessions = 2});
  EXPECT_TRUE(MovesLate(1)) << "a new drafter is likely to do better";
}

TEST_F(LateDrafts, OnlyDrafterKeepsItsSessions) {
  const auto a = JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  Plan(1);
  EXPECT_FALSE(MovesLate(1));
  EXPECT_EQ(pool_.DrafterName(1), "a");
  EXPECT_FALSE(Open(2)) << "a suspended drafter gets no new sessions";
  EXPECT_EQ(pool_.SetTimeout(1, kLongTime, {}).usual, Duration::zero());
  EXPECT_TRUE(consumer_.back.empty());
  SendDraft(1, 1);
  EXPECT_EQ(consumer_.back, std::vector<uint64_t>{1});
  EXPECT_GT(pool_.SetTimeout(1, kLongTime, {}).usual, Duration::zero());
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "a");
}

TEST_F(LateDrafts, UnfinishedDraftsSuspendTheirDrafter) {
  const auto a = JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Suspended()) << i;
    Plan(1);
    SendDraft(1, 1, /*more=*/true);
    EXPECT_FALSE(MovesLate(1)) << "there is no other";
  }
  EXPECT_TRUE(Suspended());
  EXPECT_FALSE(Open(2));
  Plan(1);
  SendDraft(1, 1, /*more=*/true);
  EXPECT_TRUE(consumer_.back.empty()) << "a part is not a draft";
  JoinShown(2, Hello("b"));
  EXPECT_TRUE(pool_.ReassignSession(1)) << "though it is not late again";
}

TEST_F(LateDrafts, NewDrafterIsAwaitedOnce) {
  Join(1, Hello("a"));
  Open(1);
  const DraftTimeout timeout = pool_.SetTimeout(1, kLongTime, {});
  EXPECT_EQ(timeout.usual, std::chrono::milliseconds(250));
  EXPECT_TRUE(timeout.trial);
  EXPECT_FALSE(Open(2)) << "one request tries it";
  EXPECT_FALSE(pool_.roster().Snapshot()[0].silent);
  clock_.Advance(kTick);
  SendDraft(1, 1, /*more=*/true);
  pool_.MarkLate(1);
  EXPECT_EQ(pool_.SetTimeout(1, kLongTime, {}).usual, Duration::zero()) << "a part is not a draft";
  SendDraft(1, 1);
  EXPECT_GT(pool_.SetTimeout(1, kLongTime, {}).usual, Duration::zero());
  EXPECT_TRUE(Open(2));
}

// Whether each of them is new, or one of them reconnects again and again.
TEST_F(LateDrafts, ManyNewDraftersAreSeldomAwaited) {
  int waits = 0;
  for (uint64_t id = 1; id <= 100; ++id) {
    Join(id, Hello("new"));
    ASSERT_TRUE(Open(id));
    if (pool_.SetTimeout(id, kLongTime, {}).usual > Duration::zero()) ++waits;
    clock_.Advance(std::chrono::milliseconds(200));
    pool_.roster().Leave(id);
  }
  EXPECT_EQ(waits, 2) << "in 20 s";
}

TEST_F(LateDrafts, TeachTheirTimeAfterNextPlan) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  EXPECT_NEAR(pool_.roster().Snapshot()[0].round_trip_ms, 10, 0.1);
  const Duration before = pool_.SetTimeout(1, kLongTime, {}).usual;
  Plan(1);
  SendDraft(1, 1, /*more=*/true);
  clock_.Advance(std::chrono::milliseconds(190));
  pool_.MarkLate(1);
  const double bound = pool_.roster().Snapshot()[0].round_trip_ms;
  EXPECT_NEAR(bound, 10 + 190. / 8, 0.1) << "of which it has taken 200 so far";
  Plan(1);
  clock_.Advance(std::chrono::milliseconds(390));
  SendDraft(1, 1, /*more=*/false, /*rounds_ago=*/1);
  EXPECT_NEAR(pool_.roster().Snapshot()[0].round_trip_ms, bound + (600 - bound) / 8, 0.1);
  EXPECT_GT(pool_.SetTimeout(1, kLongTime, {}).usual,
            std::max(before, Duration(std::chrono::milliseconds(600))));
}

TEST_F(LateDrafts, FirstRoundSaysNothing) {
  JoinShown(1, Hello("a"));
  Open(1);  // processes a prompt
  Join(2, Hello("b"));
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_FALSE(MovesLate(1));
  EXPECT_TRUE(Open(2));
}

TEST_F(LateDrafts, TriesSuspendedDrafterBesideAnother) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  JoinShown(2, Hello("b"));
  StartDrafting(2, 2);
  Plan(1);
  EXPECT_TRUE(MovesLate(1));
  Open(1);
  EXPECT_EQ(pool_.DrafterName(1), "b");
  pool_.Close(1);
  clock_.Advance(std::chrono::seconds(1));
  Open(3);
  EXPECT_EQ(pool_.DrafterName(3), "a");
  EXPECT_TRUE(pool_.SetTimeout(3, kLongTime, {}).trial);
  EXPECT_FALSE(pool_.ReassignSession(3)) << "it has some time";
  Open(4);
  EXPECT_EQ(pool_.DrafterName(4), "b") << "one at a time";
  rounds_[3] = 0;
  SendDraft(1, 3);
  pool_.Close(4);
  Open(5);
  EXPECT_EQ(pool_.DrafterName(5), "a") << "it is well";
}

// A long text takes longer to process than a draft is worth waiting for.
TEST_F(LateDrafts, TrialWithLongPromptIsRepeated) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  Plan(1);
  pool_.MarkLate(1);
  pool_.Close(1);
  clock_.Advance(std::chrono::seconds(1));
  tokens_.assign(40, 1);
  ASSERT_TRUE(Open(3));
  rounds_[3] = 0;
  clock_.Advance(std::chrono::seconds(2));
  SendDraft(1, 3);
  EXPECT_TRUE(Suspended());
  const std::optional<DraftTiming> timing = pool_.Timing(3, 0);
  ASSERT_TRUE(timing.has_value()) << "the controller may ask once more";
  EXPECT_TRUE(timing->trial);
  Plan(3);
  SendDraft(1, 3);
  EXPECT_FALSE(Suspended());
}

TEST_F(LateDrafts, StallIsForgotten) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  Plan(1);
  clock_.Advance(std::chrono::seconds(5));
  pool_.MarkLate(1);
  Plan(1);
  const auto answer = [this](uint32_t rounds_ago, double seconds) {
    pool_.OnDrafts(1,
                   {{.session = 1,
                     .round = rounds_[1] + 1 - rounds_ago,
                     .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}},
                     .seconds = seconds}},
                   0);
  };
  answer(1, 5);
  ASSERT_TRUE(Suspended());
  answer(0, 0.004);
  ASSERT_FALSE(Suspended());
  const DraftTiming timing = *pool_.Timing(1, 0);
  EXPECT_NEAR(timing.network, 0.006, 1e-3);
  EXPECT_NEAR(timing.depth, 0.004, 1e-3);
}

// It refuses shortly before the deadline, every time.
TEST_F(LateDrafts, SlowRefusalsSuspendTheirDrafter) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  const auto refuse = [this](Duration after) {
    Open(2);
    clock_.Advance(after);
    pool_.OnDrafts(1, {{.session = 2, .round = 1}}, 0);
  };
  for (int i = 0; i < 10; ++i) refuse(kTick);
  EXPECT_FALSE(Suspended()) << "who is full may say so";
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(Suspended()) << i;
    refuse(std::chrono::milliseconds(240));
  }
  EXPECT_TRUE(Suspended());
}

// A step of the engine may keep messages waiting.
TEST_F(LateDrafts, RefusalsCountFromTheirArrival) {
  DrafterHello roomy = Hello("a");
  roomy.max_sessions = 8;
  JoinShown(1, roomy);
  StartDrafting(1, 1);
  for (uint64_t session = 2; session < 5; ++session) Open(session);
  const Time arrived = clock_.Now() + kTick;
  clock_.Advance(std::chrono::milliseconds(240));
  pool_.OnDrafts(
      1, {{.session = 2, .round = 1}, {.session = 3, .round = 1}, {.session = 4, .round = 1}}, 0,
      arrived);
  EXPECT_FALSE(Suspended());
}

TEST_F(LateDrafts, SessionsMoveOnlyWhereTheyFit) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  DrafterHello small = Hello("small");
  small.max_context = 6;
  JoinShown(2, small);
  Plan(1);
  EXPECT_FALSE(MovesLate(1)) << "it has 8 tokens and a plan of 4";
}

TEST_F(LateDrafts, FruitlessTrialEnds) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  DrafterHello b = Hello("b");
  b.max_context = 1024;
  JoinShown(2, b);
  Plan(1);
  EXPECT_TRUE(MovesLate(1));
  clock_.Advance(std::chrono::seconds(1));
  Open(3);
  EXPECT_EQ(pool_.DrafterName(3), "a");
  rounds_[3] = 0;
  for (int i = 0; i < 99; ++i) {
    Plan(3);
    EXPECT_FALSE(pool_.ReassignSession(3)) << i;
  }
  Plan(3);
  EXPECT_TRUE(pool_.ReassignSession(3));
}

TEST_F(LateDrafts, MuteNewDrafterDelaysOneSession) {
  JoinShown(1, Hello("a"));
  StartDrafting(1, 1);
  Join(2, Hello("mute"));
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "mute") << "a new one is tried";
  Open(3);
  EXPECT_EQ(pool_.DrafterName(3), "a") << "but not with all";
  rounds_[2] = 0;
  Plan(2);
  EXPECT_FALSE(pool_.ReassignSession(2)) << "it may be reading a prompt";
  clock_.Advance(std::chrono::seconds(1));
  pool_.Close(3);
  EXPECT_TRUE(pool_.ReassignSession(2));
  Open(2);
  EXPECT_EQ(pool_.DrafterName(2), "a");
}

TEST_F(LateDrafts, TriesSuspendedDrafterLaterAndLater) {
  Join(1, Hello("a"));
  StartDrafting(1, 1);
  Plan(1);
  pool_.MarkLate(1);
  pool_.Close(1);
  int tries = 0;
  uint64_t session = 10;
  for (int i = 0; i < 1000; ++i) {  // 10 s
    clock_.Advance(kTick);
    if (!Open(++session)) continue;
    ++tries;
    EXPECT_FALSE(Open(1000 + session)) << "one at a time";
    clock_.Advance(kTick);
    EXPECT_FALSE(MovesLate(session)) << "there is no other";
    pool_.Close(session);
  }
  EXPECT_GE(tries, 3);
  EXPECT_LE(tries, 6);
}

}  // namespace
}  // namespace outrider
