// Working ahead leaves the output law alone, through the whole of engine, pool and drafting loop:
// every seed has the text that it has without (so the law over seeds is the same one), and the law
// is the target's own.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/fake_model.h"
#include "tests/support/local_pair.h"
#include "tests/support/statistics.h"
#include "tests/support/tiny_tokenizer.h"

namespace outrider::testing {
namespace {

constexpr int kVocab = 4;
constexpr int kTokens = 8;

class CollectingSink final : public GenerationSink {
 public:
  void Send(Chunk chunk) override {
    tokens.insert(tokens.end(), chunk.tokens.begin(), chunk.tokens.end());
  }
  void Finish(const Summary& /*summary*/) override {}
  void Fail(const Status& reason) override { ADD_FAILURE() << reason.ToString(); }

  std::vector<TokenId> tokens;
};

struct Setting {
  Rule rule;
  int paths;
  float temperature = 1.f;
};

class WorkAheadLaw : public ::testing::TestWithParam<Setting> {
 protected:
  // The texts of seeds 1 to `count`.
  std::vector<std::vector<TokenId>> Generate(int count, int ahead_tokens) {
    const SteadyClock clock;
    LocalPairOptions options;
    options.engine.max_sessions = 4;
    options.drafter.ahead_tokens = ahead_tokens;
    LocalPair pair(options, &target_, &draft_, tokenizer_.get(), &clock);
    std::vector<std::shared_ptr<CollectingSink>> sinks;
    for (int seed = 1; seed <= count; ++seed) {
      sinks.push_back(std::make_shared<CollectingSink>());
      const Status submitted = pair.engine().Submit(
          static_cast<uint64_t>(seed),
          {.prompt = {1, 2},
           .sampling = {.temperature = GetParam().temperature},
           .max_tokens = kTokens,
           .seed = static_cast<uint64_t>(seed),
           .speculation = {.rule = GetParam().rule, .draft_length = 2, .paths = GetParam().paths}},
          sinks.back());
      EXPECT_TRUE(submitted.ok()) << submitted.ToString();
      if (seed % 100 != 0) continue;
      while (!pair.engine().idle()) pair.Run();
    }
    while (!pair.engine().idle()) pair.Run();
    std::vector<std::vector<TokenId>> texts;
    for (const auto& sink : sinks) texts.push_back(sink->tokens);
    return texts;
  }

  FakeModel target_{{.seed = 5, .vocab_size = kVocab, .order = 2, .sharpness = 2.f}};
  FakeModel draft_{{.seed = 6, .vocab_size = kVocab, .order = 2, .sharpness = 2.f}};
  std::unique_ptr<Tokenizer> tokenizer_ = Tokenizer::FromJson(TinyTokenizerJson(kVocab)).value();
};

TEST_P(WorkAheadLaw, EverySeedHasTheTextThatItHasWithout) {
  const size_t before = draft_.batches().size();
  const auto without = Generate(400, 0);
  const size_t between = draft_.batches().size();
  EXPECT_EQ(Generate(400, 64), without);
  // It did work ahead.
  EXPECT_GT(draft_.batches().size() - between, (between - before) * 3 / 2);
}

TEST_P(WorkAheadLaw, IsTheTargets) {
  if (GetParam().temperature == 0) GTEST_SKIP() << "one text";
  // Tokens 3 to 5: behind the first rounds, where drafts were made ahead.
  constexpr size_t kFrom = 2, kCells = kVocab * kVocab * kVocab;
  std::vector<int64_t> counts(kVocab * kVocab * kCells);
  for (const std::vector<TokenId>& text : Generate(8000, 64)) {
    ASSERT_EQ(text.size(), static_cast<size_t>(kTokens));
    size_t cell = 0;
    for (size_t i = 0; i < kFrom + 3; ++i) cell = cell * kVocab + static_cast<size_t>(text[i]);
    ++counts[cell];
  }
  std::vector<double> law;
  for (size_t cell = 0; cell < counts.size(); ++cell) {
    std::vector<TokenId> path = {1, 2};
    double p = 1;
    for (size_t i = 0, rest = counts.size(); i < kFrom + 3; ++i) {
      rest /= kVocab;
      const auto token = static_cast<TokenId>(cell / rest % kVocab);
      const std::vector<float> row = target_.Logits(path);
      double sum = 0;
      for (const float x : row) sum += std::exp(static_cast<double>(x));
      p *= std::exp(static_cast<double>(row[static_cast<size_t>(token)])) / sum;
      path.push_back(token);
    }
    law.push_back(p);
  }
  EXPECT_GT(ChiSquarePValue(counts, law), kFalseAlarm);
}

INSTANTIATE_TEST_SUITE_P(Rules, WorkAheadLaw,
                         ::testing::Values(Setting{Rule::kToken, 1}, Setting{Rule::kBlock, 1},
                                           Setting{Rule::kSpecTr, 2},
                                           Setting{Rule::kMultiPathBlock, 3},
                                           Setting{Rule::kGumbel, 2},
                                           Setting{Rule::kBlock, 1, 0.f}),
                         [](const auto& test) {
                           std::string name(RuleName(test.param.rule));
                           std::erase(name, '-');
                           return name + std::to_string(test.param.paths) +
                                  (test.param.temperature == 0 ? "greedy" : "");
                         });

}  // namespace
}  // namespace outrider::testing
