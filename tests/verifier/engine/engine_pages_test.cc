// How sequences share the engine's steps and the pages of its KV cache.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

using testing::RecordingSink;

TEST_F(EngineTest, SessionsShareAForwardPass) {
  source_.accepts = false;
  const auto a = Submit(1, Greedy(5));
  const auto b = Submit(2, Greedy(5));
  while (engine_->Step()) {
  }
  EXPECT_EQ(a->tokens, b->tokens);
  EXPECT_EQ(model_.batches().size(), 5u);
  for (const auto& batch : model_.batches()) EXPECT_EQ(batch.size(), 2u);
}

TEST_F(EngineTest, PreemptsYoungestWhenPagesRunOut) {
  // 64 pages of 4 tokens; a request of 6 + 94 tokens eventually takes 25: two can run to their end.
  source_.accepts = false;
  const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 94);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t id = 1; id <= 6; ++id) sinks.push_back(Submit(id, Greedy(94)));
  engine_->Step();
  EXPECT_EQ(engine_->Snapshot().running, 6) << "their prompts fit";
  int fewest = 6;
  while (engine_->Step()) {
    const EngineSnapshot now = engine_->Snapshot();
    EXPECT_GE(now.free_pages, 0);
    if (now.running + now.waiting == 6) fewest = std::min(fewest, now.running);
    // Every running sequence is older than every waiting one.
    bool waits = false;
    for (const SessionSnapshot& s : now.sessions) {
      const bool waiting = std::string(s.phase) == "waiting";
      EXPECT_FALSE(waits && !waiting);
      waits = waits || waiting;
    }
  }
  EXPECT_LE(fewest, 3);
  for (const auto& sink : sinks) {
    EXPECT_TRUE(sink->ended);
    EXPECT_EQ(sink->tokens, want) << "recomputed, the text is the same";
  }
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
}

TEST_F(EngineTest, PreemptionChangesNoSampledText) {
  source_.accepts = false;
  const auto run = [&](uint64_t id, int others) {
    GenerationRequest request = Greedy(90);
    request.sampling = {.temperature = 1, .presence_penalty = 0.2f};
    request.seed = 77;
    for (int i = 0; i < others; ++i) Submit(id + static_cast<uint64_t>(i), Greedy(94));
    const auto sink = Submit(id + static_cast<uint64_t>(others), request);
    while (engine_->Step()) {
    }
    return sink->tokens;
  };
  const std::vector<TokenId> alone = run(1, 0);
  EXPECT_EQ(alone.size(), 90u);
  EXPECT_EQ(run(10, 5), alone);
}

TEST_F(EngineTest, NewDrafterGetsNoOldDraft) {
  // 64 pages of 4 tokens: both fit at first, but not to the end of the large one.
  GenerationRequest large = Greedy(240);
  large.speculation.enabled = false;
  const auto old = Submit(1, large);
  GenerationRequest small = Greedy(100);
  small.prompt.assign(40, 7);
  const auto sink = Submit(2, small);
  engine_->Step();
  const uint32_t round = source_.plan(2).round;
  engine_->draft_consumer().OnDraft(2, round, DraftTree::Chain(GreedyPath(small.prompt, 2), {}),
                                    /*complete=*/false);
  // Its pages go to the older sequence while the draft is incomplete.
  while (engine_->Snapshot().running == 2) engine_->Step();
  ASSERT_FALSE(old->ended);
  engine_->draft_consumer().OnDrafterLost(2);
  engine_->Cancel(1, Status(Code::kCancelled, "done"));
  source_.decided.clear();
  source_.opened.clear();
  while (source_.opened.empty()) ASSERT_TRUE(engine_->Step());
  EXPECT_EQ(source_.opened.at(2).plan.round, round + 1) << "after the round of the old draft";
  EXPECT_TRUE(source_.decided[2].empty());
  EXPECT_EQ(sink->tokens, GreedyPath(small.prompt, 3)) << "two drafted, one after them";
}

// Under load drafts get narrower, then shorter, then disappear, so that every sequence keeps its
// turn.
TEST_F(EngineTest, TrimsDraftsToShareOfStep) {
  Restart({.admission = {.prefix_cache = false}, .scheduler = {.token_budget = 64}});
  GenerationRequest request = Greedy(40);
  request.speculation = {.draft_length = 4, .paths = 4};
  Submit(1, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(1).shape, Sequences(4, 4)) << "48 rows for one";
  for (uint64_t id = 2; id <= 4; ++id) Submit(id, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(4).shape, Sequences(1, 4)) << "12 rows each";
  for (uint64_t id = 5; id <= 16; ++id) Submit(id, request);
  engine_->Step();
  EXPECT_EQ(source_.plan(16).shape, Sequences(1, 2)) << "3 rows each";
  for (uint64_t id = 17; id <= 40; ++id) Submit(id, request);
  engine_->Step();
  EXPECT_FALSE(source_.opened.contains(40)) << "one row each";
}

TEST_F(EngineTest, CommonPrefixesAreComputedOnce) {
  Restart({});
  source_.accepts = false;
  GenerationRequest request = Greedy(6);
  request.prompt = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto first = Submit(1, request);
  engine_->Step();
  // While the first one is still running: 8 of 11 tokens are whole pages.
  const auto second = Submit(2, request);
  engine_->Step();
  const auto& batch = model_.batches().back();
  ASSERT_EQ(batch.size(), 2u);
  EXPECT_EQ(batch[1].context, 8);
  EXPECT_EQ(batch[1].tokens, (std::vector<TokenId>{9, 10, 11}));
  while (engine_->Step()) {
  }
  EXPECT_EQ(first->tokens, second->tokens);
  EXPECT_EQ(first->tokens, GreedyPath(request.prompt, 6));

  // A third one continues after the whole text of the first: a chat's next turn.
  request.prompt.insert(request.prompt.end(), first->tokens.begin(), first->tokens.end());
  request.prompt.push_back(12);
  const auto third = Submit(3, request);
  engine_->Step();
  EXPECT_EQ(model_.batches().back()[0].context, 16);
  while (engine_->Step()) {
  }
  EXPECT_EQ(third->tokens, GreedyPath(request.prompt, 6));
}

TEST_F(EngineTest, EvictsCachedPrefixesUnderPressure) {
  Restart({});
  source_.accepts = false;
  for (uint64_t id = 1; id <= 20; ++id) {  // 20 texts of 100 tokens: many times the cache
    GenerationRequest request = Greedy(94);
    request.prompt[0] = static_cast<TokenId>(id);
    const auto sink = Submit(id, request);
    while (engine_->Step()) {
    }
    EXPECT_EQ(sink->tokens, GreedyPath(request.prompt, 94));
  }
  engine_.reset();
  EXPECT_EQ(model_.free_pages(), model_.total_pages());
  EXPECT_EQ(model_.sequences(), 0);
}

TEST_F(EngineTest, StepsAreKeptToTheirTarget) {
  Restart(
      {.admission = {.prefix_cache = false}, .max_draft_tokens = 4, .step_target_seconds = 1e-3});
  model_.set_on_forward([this](int rows) { clock_.Advance(std::chrono::microseconds(50) * rows); });
  source_.accepts = false;
  GenerationRequest request = Greedy(3);
  request.prompt.assign(200, 1);
  for (uint64_t id = 1; id <= 3; ++id) Submit(id, request);
  int full = 0;  // steps with about as many rows as the target allows
  while (engine_->Step()) {
    size_t last = 0;
    for (const auto& share : model_.batches().back()) last += share.tokens.size();
    if (model_.batches().size() <= 10) continue;
    EXPECT_LE(last, 24u) << "20 rows take the time";
    if (last > 16) ++full;
  }
  EXPECT_GT(full, 5) << "prompts are read at this pace";
}

TEST_F(EngineTest, UnheldPagesBelongToPrefixCache) {
  Restart({});
  source_.accepts = false;
  const auto used = [&] { return model_.total_pages() - model_.free_pages(); };
  // Two requests that compute the same prompt at the same time have separate pages for it.
  Submit(1, Greedy(30));
  Submit(2, Greedy(40));
  engine_->Step();
  EXPECT_LT(engine_->Snapshot().cached_pages, used());
  while (engine_->Step()) {
  }
  EXPECT_EQ(engine_->Snapshot().cached_pages, used());
  EXPECT_GT(used(), 0);
  Submit(3, Greedy(30));
  engine_->Step();
  engine_->Cancel(3, Status(Code::kCancelled, "gone"));
  EXPECT_EQ(engine_->Snapshot().cached_pages, used());
  // More texts than fit into the pages: entries are evicted.
  for (uint64_t id = 4; id < 9; ++id) {
    GenerationRequest other = Greedy(80);
    other.prompt[0] = static_cast<TokenId>(id + 3);
    Submit(id, other);
    while (engine_->Step()) {
    }
    EXPECT_EQ(engine_->Snapshot().cached_pages, used());
  }
  GenerationRequest last = Greedy(94);
  last.prompt[0] = 20;
  Submit(9, last);
  for (int i = 0; i < 90; ++i) {
    engine_->Step();
    EXPECT_LE(engine_->Snapshot().cached_pages, used());
  }
  engine_->Cancel(9, Status(Code::kCancelled, "gone"));
  EXPECT_EQ(engine_->Snapshot().cached_pages, used());
}

TEST_F(EngineTest, MetricsSeparateHeldFromCachedPages) {
  Restart({}, &metrics_);
  source_.accepts = false;
  Submit(1, Greedy(4));
  engine_->Step();  // the prompt's 6 tokens
  const double total = model_.total_pages();
  EXPECT_EQ(metrics_.kv_cache_requests_perc.value(), 2 / total);
  while (engine_->Step()) {
  }
  EXPECT_EQ(metrics_.kv_cache_requests_perc.value(), 0);
  EXPECT_EQ(metrics_.kv_cache_usage_perc.value(), metrics_.prefix_cache_pages.value() / total);
  EXPECT_GT(metrics_.prefix_cache_pages.value(), 0);
}

}  // namespace
}  // namespace outrider
