// The pair benchmark's loop, built once with the CPU backend and once with the CUDA backend's
// sources on the host. Does not check times.
#include "tests/bench/pair_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "common/backend/backend.h"
#include "tests/bench/draft_coins.h"
#include "tests/bench/random_model.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

constexpr PairLoad kLoad = {.prompt_tokens = 21, .tokens = 18, .seed = 3};

std::unique_ptr<Model> Random(const ModelConfig& config) {
  Result<std::unique_ptr<Backend>> backend = CreateTestBackend();
  EXPECT_TRUE(backend.ok());
  Result<Weights> weights = RandomWeights(config).Make(config, **backend, WeightType::kBf16);
  EXPECT_TRUE(weights.ok());
  // Prompts take two passes.
  Result<std::unique_ptr<Model>> model = BuildModel(
      config, std::move(*weights), std::move(*backend),
      {.weights = WeightType::kBf16, .kv = KvType::kF32, .kv_pages = 12, .max_batch_tokens = 16});
  EXPECT_TRUE(model.ok()) << model.status().ToString();
  return model.ok() ? std::move(*model) : nullptr;
}

// Models of the same family that differ from the first one more and more.
std::unique_ptr<Model> Disturbed(double noise) {
  return MakeModel({.vocab_size = 64, .num_layers = 1, .noise = noise});
}

struct Counts {
  int64_t rounds = 0, drafted = 0, accepted = 0;
};

// The counts that the random numbers give for a text, computed separately.
Counts ExpectedCounts(const PairLoad& load, const PairCase& c) {
  Counts counts;
  for (int s = 0; s < c.sessions; ++s) {
    for (int position = 0; position < load.tokens;) {
      const int drafted = std::min(c.draft, load.tokens - position - 1);
      int accepted = 0;
      while (accepted < drafted &&
             IsDraftTokenAccepted(load.seed, s, position + accepted, *c.acceptance))
        ++accepted;
      ++counts.rounds;
      counts.drafted += drafted;
      counts.accepted += accepted;
      position += accepted + 1;
    }
  }
  return counts;
}

TEST(PairRun, AcceptsByCoinsAndEmitsTokens) {
  const auto target = Random(TinyTarget()), drafter = Random(TinyDrafter());
  ASSERT_TRUE(target != nullptr && drafter != nullptr);
  const PairCase cases[] = {{.sessions = 1, .draft = 4, .acceptance = 0.},
                            {.sessions = 1, .draft = 4, .acceptance = 1.},
                            {.sessions = 3, .draft = 4, .acceptance = 0.6}};
  for (const PairCase& c : cases) {
    const Result<PairFigures> figures = RunPair(target.get(), drafter.get(), kLoad, c);
    ASSERT_TRUE(figures.ok()) << figures.status().ToString();
    const Counts expected = ExpectedCounts(kLoad, c);
    EXPECT_EQ(figures->rounds, expected.rounds);
    EXPECT_EQ(figures->drafted, expected.drafted);
    EXPECT_EQ(figures->accepted, expected.accepted);
    EXPECT_EQ(figures->rounds + figures->accepted, c.sessions * kLoad.tokens);
    ASSERT_EQ(figures->texts.size(), static_cast<size_t>(c.sessions));
    for (const auto& text : figures->texts) {
      EXPECT_EQ(text.size(), static_cast<size_t>(kLoad.tokens));
    }
    // The tokens of the first rounds do not count.
    EXPECT_LT(figures->tokens, c.sessions * kLoad.tokens);
    EXPECT_GE(figures->tokens, c.sessions * (kLoad.tokens - 5));
  }
  EXPECT_EQ(target->free_pages(), target->total_pages());
  EXPECT_EQ(drafter->free_pages(), drafter->total_pages());
}

TEST(PairRun, GreedyTextEqualsPlainDecoding) {
  const auto target = Disturbed(0);
  ASSERT_NE(target, nullptr);
  for (const int sessions : {1, 3}) {
    const Result<PairFigures> plain = RunPair(target.get(), nullptr, kLoad, {.sessions = sessions});
    ASSERT_TRUE(plain.ok()) << plain.status().ToString();
    EXPECT_EQ(plain->rounds, sessions * kLoad.tokens);
    EXPECT_EQ(plain->tokens, sessions * (kLoad.tokens - 1));
    for (const double noise : {0., 0.2}) {
      const auto drafter = Disturbed(noise);
      ASSERT_NE(drafter, nullptr);
      const Result<PairFigures> drafted =
          RunPair(target.get(), drafter.get(), kLoad, {.sessions = sessions, .draft = 4});
      ASSERT_TRUE(drafted.ok()) << drafted.status().ToString();
      EXPECT_EQ(drafted->texts, plain->texts);
      EXPECT_GT(drafted->accepted, 0);
      // An equal model is always right, so only the end of the text cuts a draft short.
      EXPECT_EQ(drafted->accepted == drafted->drafted, noise == 0);
    }
  }
}

TEST(PairRun, RefusesWhatMakesNoSense) {
  const auto target = Random(TinyTarget()), drafter = Random(TinyDrafter());
  const auto other = Disturbed(0);
  ASSERT_TRUE(target != nullptr && drafter != nullptr && other != nullptr);
  const auto code = [&](Model* second, const PairLoad& load, const PairCase& c) {
    return RunPair(target.get(), second, load, c).status().code();
  };
  const PairCase drafts = {.draft = 4};
  EXPECT_EQ(code(nullptr, kLoad, drafts), Code::kInvalidArgument);
  EXPECT_EQ(code(drafter.get(), kLoad, {}), Code::kInvalidArgument);
  EXPECT_EQ(code(other.get(), kLoad, drafts), Code::kInvalidArgument);
  EXPECT_EQ(code(nullptr, kLoad, {.sessions = 0}), Code::kInvalidArgument);
  EXPECT_EQ(code(drafter.get(), {.prompt_tokens = 21, .tokens = 5}, drafts),
            Code::kInvalidArgument);
  EXPECT_EQ(code(nullptr, {.prompt_tokens = 0}, {}), Code::kInvalidArgument);
  // More than fits into the cache.
  EXPECT_EQ(code(nullptr, {.prompt_tokens = 200, .tokens = 40}, {}), Code::kResourceExhausted);
  EXPECT_EQ(target->free_pages(), target->total_pages());
}

}  // namespace
}  // namespace outrider
