// Which drafts the engine waits for and which it uses, and when it asks a drafter again.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

// Each of them is a new connection, so that the pool knows nothing about it.
TEST_F(EngineTest, LeavingDraftersCostFewWaits) {
  const auto sink = Submit(1, Greedy(100));
  int waits = 0;
  while (!sink->ended && waits < 100) {
    if (engine_->Step()) continue;
    ++waits;
    clock_.Advance(source_.timeout - std::chrono::milliseconds(1));
    engine_->draft_consumer().OnDrafterLost(1);
  }
  EXPECT_TRUE(sink->ended);
  EXPECT_LE(waits, 8);
}

// Nobody waits for a draft while the text is being computed, so the longer timeout is not used up.
TEST_F(EngineTest, NoDraftIsLateDuringPrefill) {
  Restart({.admission = {.prefix_cache = false}, .scheduler = {.token_budget = 16}});
  model_.set_on_forward([this](int) { clock_.Advance(std::chrono::milliseconds(900)); });
  GenerationRequest request = Greedy(20);
  request.prompt.assign(70, 3);
  request.sampling.temperature = 1;
  request.speculation.rule = Rule::kToken;
  const auto sink = Submit(1, request);
  while (engine_->Step()) {
  }
  EXPECT_TRUE(source_.late.empty());
  EXPECT_EQ(engine_->NextDeadline(), clock_.Now() + source_.timeout + kSeededWait);
  Draft(1, {3, 3, 3, 3},
        std::vector<DraftDistribution>(4, {.ids = {3}, .weights = {kDraftWeightTotal}}));
  while (engine_->Step()) {
  }
  EXPECT_EQ(engine_->NextDeadline(), clock_.Now() + source_.timeout + kSeededWait);
  clock_.Advance(source_.timeout + std::chrono::seconds(1));
  Draft(2, {3, 3, 3, 3},
        std::vector<DraftDistribution>(4, {.ids = {3}, .weights = {kDraftWeightTotal}}));
  while (engine_->Step()) {
  }
  EXPECT_EQ(engine_->NextDeadline(),
            clock_.Now() + source_.timeout + kSeededWait - std::chrono::seconds(1));
}

TEST_F(EngineTest, FirstTokenDoesNotWait) {
  GenerationRequest request = Greedy(10);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens.size(), 1u);
  ASSERT_EQ(source_.decided[1].size(), 1u) << "the round went by without its draft";
  EXPECT_EQ(source_.decided[1][0].node, 0);
  EXPECT_EQ(source_.decided[1][0].next, sink->tokens);
  EXPECT_FALSE(engine_->Step()) << "later rounds wait";
  EXPECT_EQ(engine_->NextDeadline(), clock_.Now() + source_.timeout);
}

TEST_F(EngineTest, IgnoresDraftPartOfOldRound) {
  EngineOptions options{.admission = {.prefix_cache = false},
                        .planner = PlannerOptions{.control = {.policy = "fixed:draft-1x8"}}};
  options.scheduler.prefill_chunk = 4;
  Restart(options);
  GenerationRequest request = Greedy(20);
  request.prompt.resize(12, 7);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());  // of the prompt
  const std::vector<TokenId> part = {9, 9, 9, 9};
  engine_->draft_consumer().OnDraft(1, source_.plan(1).round, DraftTree::Chain(part, {}),
                                    /*complete=*/false);
  source_.accepts = false;
  while (sink->chunks.empty()) ASSERT_TRUE(engine_->Step());
  EXPECT_EQ(sink->chunks.back().drafted, 4) << "the first round waits for nobody";
  engine_->draft_consumer().OnDrafterLost(1);
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->chunks.back().drafted, 0) << "another round's";
}

TEST_F(EngineTest, IgnoresLateDraftOfOldRound) {
  GenerationRequest request = Greedy(10);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());
  const DraftPlan plan = source_.plan(1);
  clock_.Advance(std::chrono::milliseconds(150));
  EXPECT_TRUE(engine_->Step()) << "timed out: a plain step";
  Draft(plan.round, {9, 9, 9});
  EXPECT_FALSE(engine_->Step()) << "the next plan is under way; the old draft is nothing";
  EXPECT_EQ(sink->tokens, GreedyPath({1, 2, 3, 4, 5, 6}, 2));
}

TEST_F(EngineTest, MissingDraftsLengthenRests) {
  GenerationRequest request = Greedy(100);
  request.seed.reset();
  const auto sink = Submit(1, request);
  for (int i = 0; i < 60; ++i) {
    if (!engine_->Step()) clock_.Advance(std::chrono::milliseconds(100));
  }
  // Plans at rounds 1, 2, 3, 5, 9, 17, 33: pauses of 1, 2, 4, 8, 16.
  EXPECT_GT(sink->tokens.size(), 40u);
  EXPECT_LE(source_.decided[1].size(), 7u);
  // The reported tokens are the whole text in the end.
  std::vector<TokenId> told;
  for (const auto& d : source_.decided[1]) told.insert(told.end(), d.next.begin(), d.next.end());
  EXPECT_TRUE(std::equal(told.begin(), told.end(), sink->tokens.begin()));
}

TEST_F(EngineTest, UnfinishedDraftsLengthenRests) {
  GenerationRequest request = Greedy(100);
  request.seed.reset();
  const auto sink = Submit(1, request);
  const std::vector<TokenId> part = {9};
  for (int i = 0; i < 60; ++i) {
    if (!source_.opened.empty()) {
      engine_->draft_consumer().OnDraft(1, source_.plan(1).round, DraftTree::Chain(part, {}),
                                        /*complete=*/false);
    }
    if (!engine_->Step()) clock_.Advance(std::chrono::milliseconds(100));
  }
  EXPECT_GT(sink->tokens.size(), 40u);
  EXPECT_LE(source_.decided[1].size(), 7u) << "as if nothing had come";
  const auto scored = [](const Chunk& chunk) { return chunk.drafted > 0; };
  EXPECT_GE(std::count_if(sink->chunks.begin(), sink->chunks.end(), scored), 5)
      << "what came in time is used";
}

TEST_F(EngineTest, NobodyWaitsForASuspendedDrafter) {
  source_.timeout = Duration::zero();
  GenerationRequest request = Greedy(50);
  request.sampling.temperature = 1;
  request.speculation.rule = Rule::kToken;  // and a seed
  const auto sink = Submit(1, request);
  while (!sink->ended) {
    ASSERT_TRUE(engine_->Step()) << "though its drafts change the text";
    Draft(source_.plan(1).round, {3, 4},
          {{.ids = {3}, .weights = {kDraftWeightTotal}},
           {.ids = {4}, .weights = {kDraftWeightTotal}}});
  }
  EXPECT_EQ(sink->summary.drafted_tokens, 0) << "they show their time, no more";
  EXPECT_GE(source_.decided[1].size(), 4u);
}

TEST_F(EngineTest, LateDraftMovesSession) {
  GenerationRequest request = Greedy(100);
  request.seed.reset();
  const auto sink = Submit(1, request);
  EXPECT_TRUE(engine_->Step());
  source_.moves = true;
  clock_.Advance(std::chrono::milliseconds(150));
  source_.opened.clear();
  EXPECT_TRUE(engine_->Step()) << "a plain step";
  ASSERT_TRUE(source_.opened.contains(1)) << "opened again without a rest";
  EXPECT_EQ(source_.opened[1].tokens.size(), 6 + sink->tokens.size());
  EXPECT_TRUE(source_.closed.empty()) << "the source has closed it";
}

TEST_F(EngineTest, ReturnedDrafterEndsRest) {
  GenerationRequest request = Greedy(200);
  request.seed.reset();
  Submit(1, request);
  for (int i = 0; i < 60; ++i) {
    if (!engine_->Step()) clock_.Advance(std::chrono::milliseconds(100));
  }
  const size_t plans = source_.decided[1].size();
  engine_->draft_consumer().OnDrafterBack(1);
  engine_->Step();
  EXPECT_EQ(source_.decided[1].size(), plans + 1);
}

TEST_F(EngineTest, NextDrafterGetsAllTokens) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 30);
  const auto sink = Submit(1, Greedy(30));
  engine_->Step();
  source_.accepts = false;
  engine_->draft_consumer().OnDrafterLost(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(engine_->Step());
  source_.accepts = true;
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(source_.opened[1].tokens.size(), 10u);
  EXPECT_EQ(source_.opened[1].prompt_tokens, 6);
  EXPECT_FALSE(engine_->Step()) << "waits for the new drafter";
  Draft(source_.opened[1].plan.round, {want[4], want[5]});
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 7));
}

TEST_F(EngineTest, RefusedSessionIsOpenedAgainLater) {
  const auto sink = Submit(1, Greedy(60));
  engine_->Step();
  int opens = 0;
  for (int i = 0; i < 20; ++i) {
    if (source_.opened.erase(1) > 0) {
      ++opens;
      engine_->draft_consumer().OnRefused(1);
    }
    EXPECT_TRUE(engine_->Step()) << "nobody waits for a drafter that refused";
  }
  // Opened at rounds 1, 2, 4, 8, 16.
  EXPECT_EQ(opens, 5);
  EXPECT_TRUE(source_.decided.empty());
}

TEST_F(EngineTest, DeadlineUsesTheArrivedPart) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 12);
  const auto sink = Submit(1, Greedy(12));
  engine_->Step();
  const std::vector<TokenId> two = {want[0], want[1]}, four = {want[0], want[1], want[2], want[3]};
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(two, {}), /*complete=*/false);
  EXPECT_FALSE(engine_->Step()) << "the rest may still come";
  clock_.Advance(std::chrono::seconds(3));
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens, std::vector<TokenId>(want.begin(), want.begin() + 3));
  EXPECT_EQ(source_.decided[1].back().node, 2);
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(four, {}), /*complete=*/true);
  EXPECT_FALSE(engine_->Step()) << "the rest is of an old round";
}

TEST_F(EngineTest, JoinsPunctualDraftParts) {
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 12);
  const auto sink = Submit(1, Greedy(12));
  engine_->Step();
  const std::vector<TokenId> two = {want[0], want[1]}, four = {want[0], want[1], want[2], want[3]};
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(two, {}), /*complete=*/false);
  engine_->draft_consumer().OnDraft(1, 1, DraftTree::Chain(four, {}), /*complete=*/true);
  EXPECT_TRUE(engine_->Step());
  EXPECT_EQ(sink->tokens.size(), 5u);
}

}  // namespace
}  // namespace outrider
