// Logits that are not finite end the requests that they belong to, and no others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

class BrokenLogitsTest : public EngineTest {
 protected:
  // Puts `bad` into the logits row after `path`.
  void Break(const std::vector<TokenId>& path, float bad) {
    model_.set_on_row([row = model_.Logits(path), bad](std::span<float> logits) {
      if (std::equal(logits.begin(), logits.end(), row.begin())) logits[3] = bad;
    });
  }
};

TEST_F(BrokenLogitsTest, EndTheirRequestAlone) {
  source_.accepts = false;
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6};
  const std::vector<TokenId> want = GreedyPath(prompt, 3);
  std::vector<TokenId> path = prompt;
  path.insert(path.end(), want.begin(), want.end());
  int ended = 0;
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    Restart({.admission = {.prefix_cache = false}}, &metrics_);
    Break(path, bad);
    const auto broken = Submit(1, Greedy(12));
    GenerationRequest sound = Greedy(12);
    sound.prompt = {7, 8, 9};
    const auto other = Submit(2, sound);
    while (engine_->Step()) {
    }
    ASSERT_TRUE(broken->ended);
    EXPECT_EQ(broken->status.code(), Code::kInternal);
    EXPECT_EQ(broken->status.message(),
              "the model's logits are not finite at position 9, after 3 tokens");
    EXPECT_EQ(broken->tokens, want);
    EXPECT_EQ(metrics_.requests_not_finite.value(), ++ended);
    EXPECT_TRUE(other->status.ok()) << other->status.ToString();
    EXPECT_EQ(other->tokens, GreedyPath({7, 8, 9}, 12));
    EXPECT_EQ(model_.free_pages(), model_.total_pages());
  }
}

TEST_F(BrokenLogitsTest, EndRequestsUnderEverySampling) {
  source_.accepts = false;
  Break({1, 2, 3, 4, 5, 6}, std::nanf(""));
  for (const Rule rule : {Rule::kBlock, Rule::kGumbel}) {
    for (const float top_p : {1.f, 0.5f}) {
      Restart({.admission = {.prefix_cache = false}});
      GenerationRequest request = Greedy(12);
      request.sampling = {.temperature = 0.8f, .top_p = top_p, .repetition_penalty = 1.2f};
      request.speculation.rule = rule;
      const auto sink = Submit(1, request);
      while (engine_->Step()) {
      }
      EXPECT_EQ(sink->status.code(), Code::kInternal) << static_cast<int>(rule) << ' ' << top_p;
      EXPECT_TRUE(sink->tokens.empty());
    }
  }
}

// A rule may read rows after tokens that it then rejects. Such rows do not belong to the text: a
// draft must not end a request that plain decoding would serve.
TEST_F(BrokenLogitsTest, AfterRejectedTokensCountForNothing) {
  const std::vector<TokenId> prompt = {1, 2, 3, 4, 5, 6};
  const std::vector<float> logits = model_.Logits(prompt);
  const auto drafted = static_cast<TokenId>(
      std::max_element(logits.begin(), logits.begin() + testing::kLetters) - logits.begin());
  Break({1, 2, 3, 4, 5, 6, drafted}, std::nanf(""));
  int rejected = 0, accepted = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    source_ = {};
    Restart({.admission = {.prefix_cache = false}});
    GenerationRequest request = Greedy(20);
    request.sampling.temperature = 1;
    request.seed = seed;
    request.speculation.rule = Rule::kBlock;
    const auto sink = Submit(1, request);
    engine_->Step();
    Draft(source_.plan(1).round, {drafted, 0});
    engine_->Step();
    ASSERT_EQ(sink->tokens.size(), 1u);
    if (sink->tokens[0] != drafted) {
      ++rejected;
      continue;
    }
    // The accepted token is sent, as in plain decoding; then the request ends.
    ++accepted;
    source_.accepts = false;
    engine_->draft_consumer().OnDrafterLost(1);
    while (engine_->Step()) {
    }
    EXPECT_EQ(sink->status.message(),
              "the model's logits are not finite at position 7, after 1 token");
  }
  EXPECT_GT(rejected, 30);
  EXPECT_GT(accepted, 0);
}

// A text that a draft token ends needs no row after it.
TEST_F(BrokenLogitsTest, AfterTheEndCountForNothing) {
  const TokenId stop = GreedyPath({1, 2, 3, 4, 5, 6}, 1)[0];
  Break({1, 2, 3, 4, 5, 6, stop}, std::nanf(""));
  GenerationRequest request = Greedy(20);
  request.stop_tokens = {stop};
  const auto sink = Submit(1, request);
  engine_->Step();
  Draft(source_.plan(1).round, {stop, 0});
  engine_->Step();
  EXPECT_TRUE(sink->ended);
  EXPECT_TRUE(sink->status.ok()) << sink->status.ToString();
  EXPECT_EQ(sink->summary.reason, FinishReason::kStop);
}

}  // namespace
}  // namespace outrider
