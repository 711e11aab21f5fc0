// Verification on the device that has the logits, through the whole model.
#include <gtest/gtest.h>

#include <memory>

#include "tests/common/model/model_testing.h"
#include "tests/common/model/verify_story.h"

namespace outrider {
namespace {

TEST(Verify, MatchesHostVerdictsWithoutCopyingRows) {
  ModelOptions options = kExactOptions;
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    options.weights = weights;
    const std::unique_ptr<Model> model = MakeModel({.vocab_size = 80, .num_layers = 1}, options);
    ASSERT_NE(model, nullptr);
    testing::ExpectVerdictsOfTheHost(*model);
  }
}

}  // namespace
}  // namespace outrider
