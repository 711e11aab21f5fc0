#include <gtest/gtest.h>

#include <memory>

#include "tests/common/model/draft_story.h"
#include "tests/common/model/model_testing.h"

namespace outrider {
namespace {

TEST(Draft, PicksFromRowsInPlace) {
  ModelOptions options = kExactOptions;
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    options.weights = weights;
    const std::unique_ptr<Model> model = MakeModel({.vocab_size = 80, .num_layers = 1}, options);
    ASSERT_NE(model, nullptr);
    testing::ExpectPicksOfTheRows(*model);
  }
}

}  // namespace
}  // namespace outrider
