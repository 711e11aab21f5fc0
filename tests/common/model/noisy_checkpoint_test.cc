#include "tests/support/noisy_checkpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/common/model/model_testing.h"
#include "tests/support/text_probabilities.h"

namespace outrider {
namespace {

// The acceptance probability of one draft token, on average.
double ChanceToAgree(Model& a, Model& b, std::span<const TokenId> tokens) {
  const auto p = testing::TextProbabilities(a, tokens, 1),
             q = testing::TextProbabilities(b, tokens, 1);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += testing::AcceptanceOf(p[i], q[i]);
  return sum / static_cast<double>(p.size());
}

TEST(NoisyCheckpoint, AgreesOftenButNotAlways) {
  const std::filesystem::path original = OUTRIDER_SOURCE_DIR "/models/default/drafter";
  const std::unique_ptr<Model> model = LoadTestModel(original);
  ASSERT_NE(model, nullptr);
  const std::vector<TokenId> tokens = RandomTokens(100, model->config().vocab_size, 7);
  double before = 1.001;
  for (const float strength : {0.0f, 0.1f, 0.3f}) {
    const TempDirectory noisy;
    ASSERT_TRUE(AddNoise(original, noisy.path(), strength, 1).ok());
    const std::unique_ptr<Model> other = LoadTestModel(noisy.path());
    ASSERT_NE(other, nullptr);
    const double chance = ChanceToAgree(*model, *other, tokens);
    EXPECT_LT(chance, before) << strength;
    EXPECT_GT(chance, strength == 0.0f ? 0.999 : 0.3) << strength;
    before = chance - 0.05;
  }
}

TEST(NoisyCheckpoint, RefusesAFolderWithoutWeights) {
  const TempDirectory empty, to;
  EXPECT_FALSE(AddNoise(empty.path(), to.path(), 0.1f, 1).ok());
}

}  // namespace
}  // namespace outrider
