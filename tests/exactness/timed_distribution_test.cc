// The output distribution where time decides how much of a draft is used: production engine, pool
// and drafting loop on simulated clocks, on which drafts come whole, in part or not at all. If when
// a part is sent told anything of its tokens, those that come in time would be favoured.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "common/spec/stop_rule.h"
#include "tests/support/fake_model.h"
#include "tests/support/statistics.h"
#include "tests/support/timed_pair.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider {
namespace {

constexpr TokenId kLetter = 3, kEnd = 4;  // all that may be sampled
constexpr int kTokens = 4;                // that are compared, the first of a text
constexpr int kTexts = 20000;

class TimedDistribution : public ::testing::Test {
 protected:
  static FakeModelOptions ModelOptions(uint64_t seed) {
    return {.seed = seed, .max_batch_tokens = 128, .eos_token_ids = {kEnd}};
  }

  // Its prompt takes four steps to read.
  static GenerationRequest Request() {
    GenerationRequest request{.sampling = {.temperature = 1, .allowed_tokens = {kLetter, kEnd}},
                              .max_tokens = 12,
                              .ignore_eos = true};
    for (int i = 0; i < 60; ++i) request.prompt.push_back(5 + i % 7);
    return request;
  }

  // The probability of each text, whose tokens are the bits of its index.
  std::vector<double> Expected(const GenerationRequest& request) const {
    std::vector<double> expected(1 << kTokens, 1.);
    for (size_t text = 0; text < expected.size(); ++text) {
      std::vector<TokenId> path = request.prompt;
      for (int i = 0; i < kTokens; ++i) {
        const std::vector<float> logits = target_.Logits(path);
        const double of_end = 1 / (1 + std::exp(logits[kLetter] - logits[kEnd]));
        const bool ends = (text >> i & 1) != 0;
        expected[text] *= ends ? of_end : 1 - of_end;
        path.push_back(ends ? kEnd : kLetter);
      }
    }
    return expected;
  }

  // A step takes 10 ms and a draft pass 8, each times a random factor.
  void ExpectTargetDistribution(const StopRule& stop) {
    std::mt19937 random(1);
    testing::TimedPairOptions options{
        .target_cost = {.first_row = 0.01},
        .drafter_cost = {.first_row = 0.008},
        .one_way = 0.001,
        .slowness = [&] { return std::uniform_real_distribution<>(0.3, 2)(random); }};
    options.engine.admission.prefix_cache = false;
    options.engine.scheduler.prefill_chunk = 16;
    options.engine.speculation = {.draft_length = 8, .paths = 1, .stop = stop};
    options.engine.draw_seed = [this] { return random_(); };
    options.drafter.ahead_tokens = 32;
    testing::TimedPair pair(options, &target_, &drafter_, tokenizer_.get());
    const GenerationRequest request = Request();
    const auto answers = pair.Run(std::vector<GenerationRequest>(kTexts, request), 1);
    std::vector<int64_t> counts(1 << kTokens, 0);
    int accepted = 0;
    for (const auto& answer : answers) {
      size_t text = 0;
      for (int i = 0; i < kTokens; ++i) text |= size_t{answer.tokens.at(i) == kEnd} << i;
      ++counts[text];
      accepted += answer.summary.accepted_tokens;
    }
    EXPECT_GT(accepted, kTexts / 4) << "otherwise this would show little";
    EXPECT_GT(testing::ChiSquarePValue(counts, Expected(request)), testing::kFalseAlarm);
  }

  FakeModel target_{ModelOptions(1)};
  FakeModel drafter_{ModelOptions(5)};
  std::unique_ptr<Tokenizer> tokenizer_ =
      Tokenizer::FromJson(testing::TinyTokenizerJson(testing::kLetters)).value();
  std::mt19937_64 random_{20261128};
};

// The first round waits for no draft: it uses what has come when the prompt is read.
TEST_F(TimedDistribution, HoldsForFirstRounds) { ExpectTargetDistribution({}); }

TEST_F(TimedDistribution, HoldsUnderStopRules) {
  ExpectTargetDistribution({.kind = StopRule::Kind::kConfidence, .threshold = 0.85f});
}

}  // namespace
}  // namespace outrider
