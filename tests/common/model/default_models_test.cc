// The embedded pair against logits that PyTorch computed in float from the same bf16 weights.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

// Two float implementations that sum in different orders, on logits of size 10.
constexpr float kTolerance = 2e-3f;

class DefaultModels : public testing::TestWithParam<WeightType> {
 protected:
  static void ExpectTopLogits(const std::string& role) {
    const std::filesystem::path models = OUTRIDER_SOURCE_DIR "/models/default";
    std::ifstream file(models / "reference_logits.json");
    ASSERT_TRUE(file) << "models/default/reference_logits.json cannot be read";
    const auto reference = nlohmann::json::parse(file);
    ModelOptions options = kExactOptions;
    options.weights = GetParam();
    const std::unique_ptr<Model> model = LoadTestModel(models / role, options);
    ASSERT_NE(model, nullptr);
    ASSERT_FALSE(reference["prompts"].empty());
    for (const auto& prompt : reference["prompts"]) {
      const auto ids = prompt["ids"].get<std::vector<TokenId>>();
      const std::vector<float> logits = RunFresh(*model, ids).back();
      const auto top = prompt["top_logits"][role].get<std::vector<std::pair<int, float>>>();
      for (const auto& [id, logit] : top) {
        EXPECT_NEAR(logits.at(static_cast<size_t>(id)), logit, kTolerance) << prompt["domain"];
      }
      // The list is complete: no other logit is above its last one.
      const auto above = std::count_if(logits.begin(), logits.end(), [&](float logit) {
        return logit > top.back().second + kTolerance;
      });
      EXPECT_LT(above, static_cast<ptrdiff_t>(top.size())) << prompt["domain"];
    }
  }
};

TEST_P(DefaultModels, TargetGivesTheLogitsOfPyTorch) { ExpectTopLogits("target"); }
TEST_P(DefaultModels, DrafterGivesTheLogitsOfPyTorch) { ExpectTopLogits("drafter"); }

INSTANTIATE_TEST_SUITE_P(Weights, DefaultModels,
                         testing::Values(WeightType::kBf16, WeightType::kF32),
                         [](const testing::TestParamInfo<WeightType>& type) {
                           return type.param == WeightType::kBf16 ? "Bf16" : "F32";
                         });

}  // namespace
}  // namespace outrider
