#include "verifier/pool/drafter_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tests/verifier/pool/pool_fixture.h"

namespace outrider {
namespace {

TEST_F(Pool, SpreadsSessionsWithinLimits) {
  const auto a = JoinShown(1, Hello("a"));
  const auto b = JoinShown(2, Hello("b"));
  for (uint64_t s = 1; s <= 4; ++s) EXPECT_TRUE(Open(s));
  EXPECT_EQ(a->opened.size(), 2u);
  EXPECT_EQ(b->opened.size(), 2u);
  EXPECT_FALSE(Open(5)) << "both are full";
  pool_.Close(a->opened[0]);
  EXPECT_TRUE(Open(5));
}

TEST_F(Pool, CutsPlansToDrafterLimits) {
  const auto link = Join(1, Hello("a"));
  EXPECT_TRUE(Open(1, 16));
  EXPECT_EQ(link->plans[1].shape.length, 4);
  const std::vector<TokenId> next = {5};
  pool_.Decide(
      {.session = 1, .round = 1, .next = next, .plan = {.round = 2, .shape = Sequences(1, 9)}});
  pool_.Flush();
  EXPECT_EQ(link->plans[1].shape.length, 4);
  EXPECT_EQ(link->plans[1].round, 2u);
}

TEST_F(Pool, SendsOneMessagePerStep) {
  const auto link = JoinShown(1, Hello("a"));
  Open(1);
  Open(2);
  for (uint64_t s = 1; s <= 2; ++s) {
    std::vector<TokenId> next = {static_cast<TokenId>(10 * s), 7};
    pool_.Decide(
        {.session = s, .round = 1, .next = next, .plan = {.round = 2, .shape = Sequences(1, 4)}});
    next.assign({0, 0});
  }
  EXPECT_EQ(link->batches, 0);
  pool_.Flush();
  EXPECT_EQ(link->batches, 1);
  EXPECT_EQ(link->next[1], (std::vector<TokenId>{10, 7}));
  EXPECT_EQ(link->next[2], (std::vector<TokenId>{20, 7}));
  pool_.Flush();
  EXPECT_EQ(link->batches, 1);
}

TEST_F(Pool, CountsAcceptedTokensOfEveryRound) {
  Join(1, Hello("a"));
  ASSERT_TRUE(OpenShape(1, Sequences(2, 2), DraftKind::kArgmax));
  // Nodes 1 and 2 continue the committed tokens, node 3 continues 1, node 4 continues 2.
  pool_.OnDrafts(
      1, {{.session = 1, .round = 1, .chunk = {.tokens = {5, 6, 7, 8}, .parents = {0, 0, 1, 2}}}},
      0);
  pool_.RecordAccepted(1, 2);
  pool_.Decide({.session = 1,
                .round = 1,
                .node = 4,
                .next = {9},
                .plan = {.round = 2, .shape = Sequences(1, 4)}});
  pool_.RecordAccepted(1, 1);
  pool_.Close(1);
  pool_.RecordAccepted(1, 7);  // no drafter holds it any more
  EXPECT_EQ(pool_.roster().Snapshot().at(0).drafted_tokens, 4u);
  EXPECT_EQ(pool_.roster().Snapshot().at(0).accepted_tokens, 3u);
}

TEST_F(Pool, DeliversAGoodDraft) {
  Join(1, Hello("a"));
  Open(1);
  pool_.OnDrafts(
      1,
      {{.session = 1,
        .round = 1,
        .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5, 6}, {65535, 1})}}}},
      0);
  EXPECT_EQ(consumer_.drafts[1].Path(1), std::vector<TokenId>{5});
  EXPECT_TRUE(consumer_.complete[1]);
}

TEST_F(Pool, RefusedSessionIsFree) {
  const auto a = Join(1, Hello("a"));
  Open(1);
  const auto b = Join(2, Hello("b"));
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = {}}}, 0);
  EXPECT_EQ(consumer_.refused, std::vector<uint64_t>{1});
  EXPECT_TRUE(a->closed_with.ok());
  EXPECT_EQ(pool_.DrafterName(1), "");
  pool_.Close(1);
  EXPECT_TRUE(a->closed.empty()) << "it has forgotten the session by itself";
  EXPECT_TRUE(Open(1));
}

TEST_F(Pool, LeavingDrafterLosesItsSessionsOnly) {
  const auto a = JoinShown(1, Hello("a"));
  JoinShown(2, Hello("b"));
  for (uint64_t s = 1; s <= 4; ++s) Open(s);
  pool_.roster().Leave(1);
  EXPECT_EQ(consumer_.lost, a->opened);
  pool_.roster().Leave(1);
  EXPECT_EQ(consumer_.lost.size(), 2u);
  EXPECT_FALSE(Open(5));
}

class CountingPool : public Pool {
 protected:
  CountingPool() { counting_.set_consumer(&consumer_); }

  void Join(uint64_t id) {
    EXPECT_TRUE(counting_.roster().Join(id, Hello("d"), std::make_shared<RecordingLink>()).ok());
  }

  MetricsRegistry registry_;
  VerifierMetrics metrics_{registry_};
  DrafterPool counting_{{.model = "large", .tokenizer = Fingerprint(), .vocab_size = 112},
                        {.mass = 0.999f, .max_entries = 32},
                        &metrics_,
                        &clock_};
};

TEST_F(CountingPool, CountsEachDepartureOnce) {
  for (uint64_t id = 1; id <= 5; ++id) Join(id);
  counting_.roster().Leave(1);  // as when a read fails, before the reason is known
  counting_.roster().Leave(1);
  EXPECT_EQ(metrics_.drafters_connected.value(), 4);
  counting_.roster().OnStreamEnd(1, StreamEnd::kClosed);
  counting_.roster().OnStreamEnd(2, StreamEnd::kGone);
  counting_.roster().OnStreamEnd(3, StreamEnd::kGone);
  counting_.roster().OnStreamEnd(4, StreamEnd::kOverload);
  // The pool closes this one: it sent a draft for a round that was not requested.
  counting_.Open({.session = 1,
                  .tokens = tokens_,
                  .prompt_tokens = 3,
                  .plan = {.round = 1, .shape = Sequences(1, 2)}});
  counting_.OnDrafts(5, {{.session = 1, .round = 7, .chunk = {.tokens = {5}}}}, 0);
  counting_.roster().OnStreamEnd(5, StreamEnd::kOverload);
  counting_.roster().OnStreamEnd(6, StreamEnd::kProtocolError);  // never joined
  EXPECT_EQ(metrics_.drafters_left_closed.value(), 1);
  EXPECT_EQ(metrics_.drafters_left_gone.value(), 2);
  EXPECT_EQ(metrics_.drafters_left_overload.value(), 1);
  EXPECT_EQ(metrics_.drafters_left_protocol_error.value(), 1);
  EXPECT_EQ(metrics_.drafters_connected.value(), 0);
}

TEST_F(CountingPool, MeasuresRoundTripsAndLateTokens) {
  Join(1);
  const auto draft = [](uint32_t round) {
    return DraftPart{.session = 1,
                     .round = round,
                     .chunk = {.tokens = {5, 6},
                               .distributions = {OutputDistribution({5}, {65536}),
                                                 OutputDistribution({6}, {65536})}},
                     .seconds = 0.010};
  };
  const std::vector<TokenId> next = {5};
  const auto decide = [&](uint32_t round) {
    counting_.Decide({.session = 1,
                      .round = round,
                      .next = next,
                      .plan = {.round = round + 1, .shape = Sequences(1, 2)}});
    counting_.Flush();
  };
  counting_.Open({.session = 1,
                  .tokens = tokens_,
                  .prompt_tokens = 3,
                  .plan = {.round = 1, .shape = Sequences(1, 2)}});
  counting_.OnDrafts(1, {draft(1)}, 100);
  EXPECT_EQ(metrics_.draft_round_trip_seconds.count(), 0u) << "it read the prompt before";
  decide(1);
  clock_.Advance(std::chrono::milliseconds(30));
  counting_.OnDrafts(1, {draft(2)}, 100);
  EXPECT_EQ(metrics_.draft_round_trip_seconds.count(), 1u);
  EXPECT_EQ(metrics_.draft_drafting_seconds.count(), 1u);
  decide(2);
  decide(3);  // without its draft, which arrives now
  counting_.OnDrafts(1, {draft(3)}, 100);
  EXPECT_EQ(metrics_.draft_round_trip_seconds.count(), 1u);
  EXPECT_EQ(metrics_.draft_tokens_late_total.value(), 2);
  EXPECT_EQ(metrics_.draft_bytes_received_total.value(), 300);
}

TEST_F(Pool, CutsPlansToDrafterDraws) {
  const auto link = Join(1, Hello("a"));
  EXPECT_TRUE(OpenShape(1, Sequences(4, 4)));
  EXPECT_EQ(link->plans[1].shape, Sequences(4, 3)) << "12 draws";
}

TEST_F(Pool, TimeoutFollowsWhatTheDrafterShows) {
  JoinShown(1, Hello("a"));
  Open(1);
  const Duration first = pool_.SetTimeout(1, kLongTime, {}).usual;
  const DraftChunk chunk = OneToken();
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  for (uint32_t round = 2; round < 60; ++round) {
    Decide(1, round - 1);
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk}}, 0);
  }
  EXPECT_EQ(first, std::chrono::milliseconds(30)) << "10, and four deviations of half as much";
  EXPECT_GE(pool_.SetTimeout(1, kLongTime, {}).usual, std::chrono::milliseconds(30));
  EXPECT_LT(pool_.SetTimeout(1, kLongTime, {}).usual, std::chrono::milliseconds(31))
      << "they are all alike";
  EXPECT_NEAR(pool_.roster().Snapshot()[0].round_trip_ms, 30, 1);
}

TEST_F(Pool, TimingSeparatesNetworkFromDrafting) {
  EXPECT_FALSE(pool_.Timing(1, 3).has_value()) << "nobody there";
  Join(1, Hello("a"));
  EXPECT_TRUE(std::isnan(pool_.Timing(1, 3)->network));
  Open(1);
  DraftChunk chunk{
      .tokens = {5, 5},
      .distributions = {OutputDistribution({5}, {65536}), OutputDistribution({5}, {65536})}};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  for (uint32_t round = 2; round < 60; ++round) {
    Decide(1, round - 1);
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.012}}, 0);
  }
  for (const uint64_t session : {1, 2}) {  // its own, and one that would be assigned to it
    const DraftTiming timing = *pool_.Timing(session, 3);
    EXPECT_NEAR(timing.network, 0.018, 1e-3);
    EXPECT_NEAR(timing.depth, 0.006, 1e-4);
  }
  EXPECT_NEAR(pool_.Timing(1, 3)->last, 0.012, 1e-9);
}

// A drafter's first draft, for which it reads a prompt, also shows that it is in time.
TEST_F(Pool, ReadingIsNotNetworkTime) {
  Join(1, Hello("a"));
  Open(1);
  const DraftChunk chunk = OneToken();
  pool_.SetTimeout(1, kLongTime, {});
  clock_.Advance(std::chrono::milliseconds(168));
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk, .seconds = 0.150}}, 0);
  for (uint32_t round = 2; round < 22; ++round) {
    Decide(1, round - 1);
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.012}}, 0);
  }
  EXPECT_NEAR(pool_.Timing(1, 3)->network, 0.018, 1e-3);
}

// Plans leave at the end of a step, after the work on all its sessions.
TEST_F(Pool, WorkBeforeSendingIsNotNetwork) {
  JoinShown(1, Hello("a"));
  Open(1);
  const DraftChunk chunk = OneToken();
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  for (uint32_t round = 2; round < 60; ++round) {
    Decide(1, round - 1);
    clock_.Advance(std::chrono::milliseconds(300));
    pool_.Flush();
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.012}}, 0);
    EXPECT_NEAR(pool_.Timing(1, 3)->last_round_trip, 0.030, 1e-9);
  }
  EXPECT_NEAR(pool_.Timing(1, 3)->network, 0.018, 1e-3);
}

// A draft that arrives in the middle of a step is read after it.
TEST_F(Pool, StepsAreNotNetworkTime) {
  JoinShown(1, Hello("a"));
  Open(1);
  const DraftChunk chunk = OneToken();
  for (uint32_t round = 1; round < 60; ++round) {
    clock_.Advance(std::chrono::milliseconds(30));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.012}}, 0,
                   clock_.Now() - std::chrono::milliseconds(10));
    Decide(1, round);
  }
  EXPECT_NEAR(pool_.Timing(1, 3)->network, 0.008, 1e-3);
  EXPECT_NEAR(pool_.Timing(1, 3)->last_round_trip, 0.020, 1e-9);
  // One that claims to have arrived before its plan took no time.
  pool_.OnDrafts(1, {{.session = 1, .round = 60, .chunk = chunk, .seconds = 0.012}}, 0,
                 clock_.Now() - std::chrono::milliseconds(10));
  EXPECT_EQ(pool_.Timing(1, 3)->last, 0);
}

// Two drafters, one fast over a slow network, one slow and nearby: the shares follow their measured
// times.
TEST_F(Pool, SpreadsSessionsByExpectedDraftTime) {
  DrafterHello roomy = Hello("far");
  roomy.max_sessions = 100;
  const auto far = Join(1, roomy);
  roomy.name = "near";
  const auto near = Join(2, roomy);
  Open(1);
  Open(2);
  ASSERT_EQ(far->opened.size(), 1u);
  ASSERT_EQ(near->opened.size(), 1u);
  const DraftChunk chunk = OneToken();
  for (uint32_t round = 1; round < 40; ++round) {
    // 20 ms of network and 1 ms of drafting, against 4 ms of drafting.
    clock_.Advance(std::chrono::milliseconds(4));
    pool_.OnDrafts(2, {{.session = 2, .round = round, .chunk = chunk, .seconds = 0.004}}, 0);
    clock_.Advance(std::chrono::milliseconds(17));
    pool_.OnDrafts(1, {{.session = 1, .round = round, .chunk = chunk, .seconds = 0.001}}, 0);
    for (uint64_t s = 1; s <= 2; ++s) {
      Decide(s, round);
    }
  }
  EXPECT_NEAR(pool_.roster().Snapshot()[0].drafting_ms, 1, 0.1);
  EXPECT_NEAR(pool_.roster().Snapshot()[0].round_trip_ms, 21, 1);
  EXPECT_NEAR(pool_.roster().Snapshot()[1].drafting_ms, 4, 0.1);
  for (uint64_t s = 3; s <= 6; ++s) EXPECT_TRUE(Open(s));
  EXPECT_EQ(near->opened.size(), 5u) << "four depths in 16 ms at most, against 24";
}

// Drafters that have shown to be alike fast, whatever sessions they hold.
class AlikePool : public Pool {
 protected:
  AlikePool() {
    DrafterHello roomy = Hello("alike");
    roomy.max_sessions = 100;
    for (uint64_t id = 0; id < 4; ++id) {
      links_.push_back(Join(id, roomy));
      EXPECT_TRUE(Open(1000 + id));
    }
    for (int i = 0; i < 20; ++i) Round();
    for (uint64_t id = 0; id < 4; ++id) {
      EXPECT_EQ(links_[id]->opened, std::vector<uint64_t>{1000 + id});
      pool_.Close(1000 + id);
      links_[id]->opened.clear();
    }
  }

  // A round of all sessions: 2 ms of drafting for one, 1 % more for each further one, and up to
  // 9 % more at the last drafter.
  void Round() {
    clock_.Advance(std::chrono::milliseconds(3));
    for (uint64_t id = 0; id < links_.size(); ++id) {
      RecordingLink& link = *links_[id];
      const double sharing = 0.01 * (static_cast<double>(link.opened.size()) - 1);
      const double seconds = 0.002 * (1 + sharing + 0.03 * static_cast<double>(id));
      for (const uint64_t s : link.opened) {
        const uint32_t round = link.plans[s].round;
        const DraftChunk chunk = OneToken();
        pool_.OnDrafts(id, {{.session = s, .round = round, .chunk = chunk, .seconds = seconds}}, 0);
        Decide(s, round);
      }
    }
    pool_.Flush();
  }

  std::vector<size_t> Counts() const {
    std::vector<size_t> counts;
    for (const auto& link : links_) counts.push_back(link->opened.size());
    return counts;
  }

  std::vector<std::shared_ptr<RecordingLink>> links_;
};

TEST_F(AlikePool, SpreadsSessionsThatCostLittle) {
  for (uint64_t s = 1; s <= 22; ++s) {
    ASSERT_TRUE(Open(s));
    for (int i = 0; i < 4; ++i) Round();
  }
  EXPECT_THAT(Counts(), ::testing::UnorderedElementsAre(5, 5, 6, 6));
}

TEST_F(AlikePool, SpreadsSessionsThatOpenAtOnce) {
  for (uint64_t id = 0; id < links_.size(); ++id) pool_.roster().OnLoad(id, {.sessions = 9});
  pool_.roster().OnLoad(3, {.sessions = 10});
  for (uint64_t s = 1; s <= 11; ++s) ASSERT_TRUE(Open(s));
  EXPECT_THAT(Counts(), ::testing::ElementsAre(3, 3, 3, 2)) << "before the next reports";
}

TEST_F(Pool, FullDrafterTakesNoMore) {
  const auto a = Join(1, Hello("a"));
  pool_.roster().OnLoad(1, {.sessions = 2});  // for other verifiers
  EXPECT_FALSE(Open(1));
  pool_.roster().OnLoad(1, {.sessions = 1});
  EXPECT_TRUE(Open(1));
  pool_.roster().OnLoad(77, {.sessions = 1});
}

TEST_F(Pool, KeepsDraftersLimitForThisVerifier) {
  const auto a = JoinShown(1, Hello("a"));
  pool_.roster().OnLoad(1, {.sessions = 2, .session_limit = 1});
  EXPECT_TRUE(Open(1)) << "full of others' sessions, it makes room for ours";
  EXPECT_FALSE(Open(2)) << "but for one alone";
  pool_.roster().OnLoad(1, {.sessions = 2, .session_limit = 2});
  EXPECT_TRUE(Open(2));
  pool_.roster().OnLoad(1, {.sessions = 2, .session_limit = 9});
  EXPECT_FALSE(Open(3)) << "no more than its hello says";
  pool_.Close(1);
  pool_.roster().OnLoad(1, {.sessions = 1, .session_limit = 0});
  EXPECT_FALSE(Open(3)) << "it lets us go";
  EXPECT_EQ(pool_.DrafterName(2), "a") << "and finishes what it has";
}

TEST_F(Pool, PrefersLessLoadedNewDrafter) {
  Join(1, Hello("busy"));
  Join(2, Hello("idle"));
  pool_.roster().OnLoad(1, {.sessions = 1});
  pool_.roster().OnLoad(2, {.sessions = 0});
  EXPECT_TRUE(Open(1));
  EXPECT_EQ(pool_.DrafterName(1), "idle");
}

}  // namespace
}  // namespace outrider
