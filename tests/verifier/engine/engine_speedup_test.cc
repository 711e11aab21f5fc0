// The speedup that the engine measures, with a clock that each forward pass advances.
#include <gtest/gtest.h>

#include <vector>

#include "tests/verifier/engine/engine_fixture.h"

namespace outrider {
namespace {

// A forward pass takes 20 ms plus 2 ms per row.
class TimedEngineTest : public EngineTest {
 protected:
  TimedEngineTest() {
    model_.set_on_forward([this](int rows) {
      clock_.Advance(std::chrono::milliseconds(20) + rows * std::chrono::milliseconds(2));
    });
    Restart({.admission = {.prefix_cache = false}}, &metrics_);
    // The cost of a row is known from plain decoding, alone and next to others.
    for (const uint64_t id : {100, 101, 102}) {
      GenerationRequest request = Greedy(id == 100 ? 40 : 20);
      request.speculation.enabled = false;
      Submit(id, std::move(request));
    }
    while (engine_->Step()) {
    }
    took_before_ = metrics_.round_seconds_total.value();
    plain_before_ = metrics_.round_seconds_if_plain_total.value();
  }

  double RoundSeconds() const { return metrics_.round_seconds_total.value() - took_before_; }
  // `neither`: seconds that drafts do not affect.
  double Speedup(double neither = 0) const {
    const double plain = metrics_.round_seconds_if_plain_total.value() - plain_before_;
    return (plain - neither) / (RoundSeconds() - neither);
  }

  // Runs request 1 to its end: each draft arrives 3 ms after its plan, with `right` of 4 tokens
  // right. In between, another request's prompt of `prompt_rows` is computed, if that is not 0.
  void RunDrafted(int right, size_t prompt_rows = 0) {
    const auto sink = Submit(1, Greedy(46));
    const std::vector<TokenId> want = GreedyPath({1, 2, 3, 4, 5, 6}, 46);
    for (int step = 0; step < 100 && !sink->ended; ++step) {
      if (step == 5 && prompt_rows > 0) {
        GenerationRequest other = Greedy(1);
        other.prompt.assign(prompt_rows, 3);
        other.speculation.enabled = false;
        Submit(2, std::move(other));
      }
      engine_->Step();
      if (sink->ended || !source_.opened.contains(1)) continue;
      clock_.Advance(std::chrono::milliseconds(3));
      const int done = engine_->Snapshot().sessions.front().completion_tokens;
      std::vector<TokenId> draft;
      for (int i = 0; i < source_.plan(1).shape.length; ++i) {
        const TokenId token = want[static_cast<size_t>(done + i)];
        draft.push_back(i < right ? token : (token + 1) % testing::kLetters);
      }
      Draft(source_.plan(1).round, draft);
    }
    EXPECT_TRUE(sink->ended);
    EXPECT_EQ(sink->tokens, want);
  }

  double took_before_ = 0, plain_before_ = 0;
};

TEST_F(TimedEngineTest, PlainDecodingHasSpeedupOne) {
  source_.accepts = false;
  // Not all sequences fit into a step, so a round takes several steps.
  Restart({.admission = {.prefix_cache = false}, .scheduler = {.token_budget = 4}}, &metrics_);
  Submit(1, Greedy(60));
  for (int step = 0; step < 20; ++step) engine_->Step();
  for (uint64_t id = 2; id < 10; ++id) {  // prompts, and nine times the load
    Submit(id, Greedy(10 + static_cast<int>(id)));
  }
  while (engine_->Step()) clock_.Advance(std::chrono::microseconds(137));
  EXPECT_GT(RoundSeconds(), 2.0);
  EXPECT_EQ(metrics_.round_seconds_if_plain_total.value(), metrics_.round_seconds_total.value());
}

TEST_F(TimedEngineTest, PerfectDraftsHaveExpectedSpeedup) {
  RunDrafted(/*right=*/4, /*prompt_rows=*/60);
  EXPECT_NEAR(Speedup(/*neither=*/60 * 0.002), 5 * 22.0 / (30 + 3), 0.1)
      << "as well as the fit knows a row";
}

TEST_F(TimedEngineTest, RejectedDraftsHaveSpeedupBelowOne) {
  RunDrafted(/*right=*/0);
  EXPECT_NEAR(Speedup(), 22.0 / (30 + 3), 0.04);
}

TEST_F(TimedEngineTest, MissingDraftCostsItsWait) {
  const auto sink = Submit(1, Greedy(3));
  for (int step = 0; step < 100 && !sink->ended; ++step) {
    if (!engine_->Step()) clock_.Advance(*engine_->NextDeadline() - clock_.Now());
  }
  ASSERT_TRUE(sink->ended);
  EXPECT_GT(RoundSeconds(), 0.1) << "the drafter's timeout";
  EXPECT_LT(Speedup(), 0.5);
}

}  // namespace
}  // namespace outrider
