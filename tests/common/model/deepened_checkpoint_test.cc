// The benchmarks' expensive target equals the original in everything except cost.
#include "tests/support/deepened_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

std::vector<TokenId> Greedy(Model& model, std::vector<TokenId> tokens, int count) {
  const SequenceId sequence = model.NewSequence();
  std::span<const TokenId> next = tokens;
  std::vector<TokenId> out;
  for (int i = 0; i < count; ++i) {
    const std::vector<float> row = Extend(model, sequence, next).back();
    out.push_back(static_cast<TokenId>(std::max_element(row.begin(), row.end()) - row.begin()));
    next = std::span(&out.back(), 1);
  }
  model.Release(sequence);
  return out;
}

TEST(DeepenedCheckpoint, DecodesTheDefaultTargetsGreedyText) {
  const std::filesystem::path original = OUTRIDER_SOURCE_DIR "/models/default/target";
  const TempDirectory deep;
  ASSERT_TRUE(DeepenCheckpoint(original, deep.path(), 5).ok());
  ModelOptions served = kExactOptions;
  served.weights = WeightType::kBf16;
  const std::unique_ptr<Model> a = LoadTestModel(original, served);
  const std::unique_ptr<Model> b = LoadTestModel(deep.path(), served);
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(b->config().num_layers(), a->config().num_layers() + 5);
  const std::vector<TokenId> prompt = RandomTokens(12, a->config().vocab_size, 7);
  EXPECT_EQ(Greedy(*b, prompt, 48), Greedy(*a, prompt, 48));
}

TEST(DeepenedCheckpoint, LogitsAreEqualToTheBit) {
  for (const Family family : {Family::kLlama, Family::kQwen2, Family::kQwen3}) {
    const TempDirectory original, deep;
    ASSERT_TRUE(MakeCheckpoint(original.path(), {.family = family}).ok());
    ASSERT_TRUE(DeepenCheckpoint(original.path(), deep.path(), 3).ok());
    const std::unique_ptr<Model> a = LoadTestModel(original.path());
    const std::unique_ptr<Model> b = LoadTestModel(deep.path());
    ASSERT_TRUE(a != nullptr && b != nullptr);
    const std::vector<TokenId> tokens = RandomTokens(40, a->config().vocab_size, 3);
    const Rows expected = RunFresh(*a, tokens);
    const Rows rows = RunFresh(*b, tokens);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_TRUE(BitEqual(rows[i], expected[i])) << i;
  }
}

TEST(DeepenedCheckpoint, CarriesTheTokenizerAlong) {
  const TempDirectory original, deep;
  ASSERT_TRUE(MakeCheckpoint(original.path(), {.tokenizer = true}).ok());
  ASSERT_TRUE(DeepenCheckpoint(original.path(), deep.path(), 1).ok());
  EXPECT_EQ(deep.Read("tokenizer.json"), original.Read("tokenizer.json"));
}

}  // namespace
}  // namespace outrider
