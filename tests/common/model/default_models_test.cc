// Compares the embedded pair with logits that PyTorch computed in float from the same weights.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

// Two float implementations that sum in different orders, on logits of size 10.
constexpr float kTolerance = 2e-3f;
// The same when the inputs of the target's matrices are rounded to 8 bits: a last bit can decide
// how a value is rounded. Errors of 1e-6 in every product change PyTorch's own logits by as much as
// 0.15.
constexpr float kRoundedTolerance = 0.15f;

const std::filesystem::path kModels = OUTRIDER_SOURCE_DIR "/models/default";

class DefaultModels : public ::testing::TestWithParam<WeightType> {
 protected:
  // `role` selects the file's logits.
  static void ExpectTopLogits(const std::string& role, const std::filesystem::path& folder,
                              float tolerance) {
    std::ifstream file(kModels / "reference_logits.json");
    ASSERT_TRUE(file) << "models/default/reference_logits.json cannot be read";
    const auto reference = nlohmann::json::parse(file);
    ModelOptions options = kExactOptions;
    options.weights = GetParam();
    const std::unique_ptr<Model> model = LoadTestModel(folder, options);
    ASSERT_NE(model, nullptr);
    ASSERT_FALSE(reference["prompts"].empty());
    for (const auto& prompt : reference["prompts"]) {
      const auto ids = prompt["ids"].get<std::vector<TokenId>>();
      const std::vector<float> logits = RunFresh(*model, ids).back();
      const auto top = prompt["top_logits"][role].get<std::vector<std::pair<int, float>>>();
      for (const auto& [id, logit] : top) {
        EXPECT_NEAR(logits.at(static_cast<size_t>(id)), logit, tolerance) << prompt["domain"];
      }
      // The list is complete: no other logit is above its last one.
      const auto above = std::count_if(logits.begin(), logits.end(), [&](float logit) {
        return logit > top.back().second + tolerance;
      });
      EXPECT_LT(above, static_cast<ptrdiff_t>(top.size())) << prompt["domain"];
    }
  }
};

TEST_P(DefaultModels, TargetMatchesPyTorch) {
  ExpectTopLogits("target", kModels / "target", kRoundedTolerance);
}

TEST_P(DefaultModels, TargetMatchesCloselyWithUnroundedActivations) {
  const TempDirectory copy;
  std::filesystem::copy(kModels / "target", copy.path());
  auto config = nlohmann::json::parse(copy.Read("config.json"));
  config["quantization_config"]["config_groups"]["group_0"]["input_activations"] = nullptr;
  copy.Write("config.json", config.dump());
  ExpectTopLogits("target_w8a16", copy.path(), kTolerance);
}

TEST_P(DefaultModels, DrafterMatchesPyTorch) {
  ExpectTopLogits("drafter", kModels / "drafter", kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Weights, DefaultModels,
                         ::testing::Values(WeightType::kBf16, WeightType::kF32),
                         [](const ::testing::TestParamInfo<WeightType>& type) {
                           return type.param == WeightType::kBf16 ? "Bf16" : "F32";
                         });

}  // namespace
}  // namespace outrider
