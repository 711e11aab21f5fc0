// Features that only a GPU supports: weights, cache and rounded activations in f16; and the shapes
// for which it has no kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/common/model/model_testing.h"
#include "tests/support/reference_model.h"

namespace outrider {
namespace {

constexpr ModelOptions kF16Options = {
    .weights = WeightType::kF16, .kv = KvType::kF16, .kv_pages = 64, .max_batch_tokens = 128};

// Three bits more than bf16: an eighth of its tolerance.
TEST(ModelInF16, LogitsAgreeWithTheReference) {
  for (const CheckpointOptions& checkpoint :
       {CheckpointOptions{.family = Family::kLlama, .dtype = Dtype::kF16},
        CheckpointOptions{.family = Family::kQwen2, .dtype = Dtype::kF16},
        CheckpointOptions{.family = Family::kQwen3, .head_dim = 32, .dtype = Dtype::kF16},
        CheckpointOptions{.family = Family::kGemma2, .num_layers = 3, .dtype = Dtype::kF16},
        CheckpointOptions{.family = Family::kOlmo2, .attention_bias = true, .dtype = Dtype::kF16},
        CheckpointOptions{
            .family = Family::kMistral, .sliding_window = 24, .dtype = Dtype::kF16}}) {
    const TempDirectory directory;
    ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
    const std::vector<TokenId> tokens = RandomTokens(70, checkpoint.vocab_size, 5);
    const auto expected = ReferenceModel(directory.path()).Logits(tokens);
    const std::unique_ptr<Model> model = LoadTestModel(directory.path(), kF16Options);
    ASSERT_NE(model, nullptr);
    const Rows rows = RunFresh(*model, tokens);
    ASSERT_EQ(rows.size(), tokens.size());
    double worst = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      worst = std::max(worst, RelativeError(rows[i], expected[i]));
    }
    EXPECT_LT(worst, Bf16WeightsTolerance() / 8);
    EXPECT_GT(worst, 1e-6) << "nothing was rounded";
  }
}

TEST(ModelInF16, F16CacheNeedsF16Weights) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {}).ok());
  ModelOptions options = kF16Options;
  options.weights = WeightType::kBf16;
  const auto model = LoadModel(directory.path(), CreateTestBackend().value(), options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().code(), Code::kInvalidArgument);
}

TEST(ModelOnADevice, RefusesHeadSizesWithoutKernel) {
  for (const int head_dim : {256, 264}) {
    const TempDirectory directory;
    ASSERT_TRUE(MakeCheckpoint(directory.path(), {.head_dim = head_dim}).ok());
    const auto model =
        LoadModel(directory.path(), CreateTestBackend().value(),
                  {.weights = WeightType::kF32, .kv_pages = 4, .max_batch_tokens = 16});
    EXPECT_EQ(model.status().code(), head_dim == 256 ? Code::kOk : Code::kUnimplemented)
        << model.status().ToString();
  }
}

}  // namespace
}  // namespace outrider
