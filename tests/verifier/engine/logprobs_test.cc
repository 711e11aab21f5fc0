#include "verifier/engine/logprobs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_model.h"
#include "tests/support/recording_sink.h"
#include "tests/support/tiny_tokenizer.h"
#include "verifier/engine/engine.h"

namespace outrider {
namespace {

TEST(Logprobs, AreLogSoftmaxOfTheRow) {
  const std::vector<float> row = {std::log(1.f), std::log(2.f), std::log(5.f)};
  const TokenLogprobs got = LogprobsOf(row, 1, 2);
  EXPECT_NEAR(got.logprob, std::log(0.25), 1e-6);
  ASSERT_EQ(got.top.size(), 2u);
  EXPECT_EQ(got.top[0].first, 2);
  EXPECT_NEAR(got.top[0].second, std::log(0.625), 1e-6);
  EXPECT_EQ(got.top[1].first, 1);
  EXPECT_EQ(got.rank, 2);
  EXPECT_EQ(LogprobsOf(row, 2, 0).rank, 1);
  EXPECT_EQ(LogprobsOf(row, 0, 0).rank, 3);
}

TEST(Logprobs, TiesGoToTheLowerId) {
  const std::vector<float> row = {0.f, 3.f, 3.f, 0.f};
  const TokenLogprobs two = LogprobsOf(row, 0, 2);
  EXPECT_EQ(two.top[0].first, 1);
  EXPECT_EQ(two.top[1].first, 2);
  const TokenLogprobs all = LogprobsOf(row, 0, 20);
  ASSERT_EQ(all.top.size(), 4u);
  EXPECT_EQ(all.top[2].first, 0);
  EXPECT_EQ(all.top[3].first, 3);
  EXPECT_TRUE(LogprobsOf(row, 0, 0).top.empty());
}

TEST(Logprobs, BrokenRowsGiveNoNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> some = {kNan, 1.f, -kInf};
  EXPECT_EQ(LogprobsOf(some, 1, 1).logprob, 0.f);
  EXPECT_EQ(LogprobsOf(some, 0, 1).logprob, -kInf);
  // Those that the model rules out come last, the lower id first.
  const TokenLogprobs all = LogprobsOf(some, 0, 20);
  ASSERT_EQ(all.top.size(), 3u);
  EXPECT_EQ(all.top[0], std::pair(1, 0.f));
  EXPECT_EQ(all.top[1], std::pair(0, -kInf));
  EXPECT_EQ(all.top[2], std::pair(2, -kInf));
  for (const float value : {kNan, kInf, -kInf}) {
    const std::vector<float> broken(3, value);
    EXPECT_EQ(LogprobsOf(broken, 0, 3).logprob, -kInf);
    EXPECT_TRUE(LogprobsOf(broken, 0, 3).top.empty());
  }
}

// With drafts from the text itself: chains and, for greedy and gumbel, trees.
TEST(Logprobs, ComeFromRawRows) {
  FakeModel model({.vocab_size = 32, .order = 1, .total_pages = 64});
  const auto tokenizer = Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
  const testing::FakeClock clock;
  EngineOptions options{.admission = {.prefix_cache = false}};
  options.planner = PlannerOptions{.control = {.policy = "fixed:lookup-4"}};
  options.draw_seed = [] { return 11; };
  Engine engine(options, &model, tokenizer.get(), nullptr, nullptr, &clock);
  uint64_t id = 0;
  const auto run = [&](float temperature, Rule rule, std::optional<int> logprobs) {
    GenerationRequest request{.prompt = {1, 2, 3, 4, 5, 6},
                              .sampling = {.temperature = temperature, .top_k = 2},
                              .max_tokens = 60};
    request.sampling.presence_penalty = 0.1f;
    request.speculation.rule = rule;
    request.logprobs = logprobs;
    const auto sink = std::make_shared<testing::RecordingSink>(/*may_fail=*/false);
    EXPECT_TRUE(engine.Submit(++id, request, sink).ok());
    while (engine.Step()) {
    }
    return sink;
  };
  for (const float temperature : {0.f, 0.4f}) {
    for (const Rule rule : {Rule::kBlock, Rule::kGumbel}) {
      const auto plain = run(temperature, rule, std::nullopt);
      const auto asked = run(temperature, rule, 3);
      EXPECT_EQ(asked->tokens, plain->tokens);
      EXPECT_TRUE(plain->logprobs.empty());
      EXPECT_GT(asked->summary.accepted_tokens, 0);
      ASSERT_EQ(asked->logprobs.size(), asked->tokens.size());
      std::vector<TokenId> path = {1, 2, 3, 4, 5, 6};
      for (size_t i = 0; i < asked->tokens.size(); ++i) {
        std::vector<float> row = model.Logits(path);
        row.resize(testing::kLetters);
        const TokenLogprobs want = LogprobsOf(row, asked->tokens[i], 3);
        EXPECT_EQ(asked->logprobs[i].logprob, want.logprob) << i;
        EXPECT_EQ(asked->logprobs[i].top, want.top) << i;
        path.push_back(asked->tokens[i]);
      }
    }
  }
}

}  // namespace
}  // namespace outrider
