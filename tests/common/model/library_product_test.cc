// A model whose larger products are cublasLt's, by the tests' double of it, against one that has
// our own kernels only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "common/backend/cuda/large_product.h"
#include "tests/common/model/graph_story.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/fake_cublas.h"

namespace outrider {
namespace {

using namespace cuda_emulation;
using ::testing::IsEmpty;

constexpr int kOddVocab = 41;

struct Rounding {
  std::string name;
  WeightType weights;
  float tolerance;  // of the largest value
};
void PrintTo(const Rounding& kind, std::ostream* out) { *out << kind.name; }

class LibraryProducts : public ::testing::TestWithParam<Rounding> {};

// Sides are odd, and many numbers of rows are none that the first algorithm takes.
TEST_P(LibraryProducts, GiveWhatOurKernelsGive) {
  SetAlgorithms({{.workspace_of_column = 1 << 10, .column_multiple = 64}, {}});
  std::vector<std::string> warnings;
  const auto make = [&warnings](bool graphs) {
    auto product = graphs ? CreateCublasProduct().value() : nullptr;
    return CreateEmulatedCudaBackend(
               {.graphs = graphs,
                .warn = [&warnings](const std::string& w) { warnings.push_back(w); }},
               std::move(product))
        .value();
  };
  {
    GraphTwins twins(make,
                     {.family = Family::kQwen3,
                      .vocab_size = kOddVocab,
                      .hidden_size = 36,
                      .intermediate_size = 43,
                      .num_layers = 2,
                      .num_heads = 3,
                      .num_kv_heads = 1,
                      .head_dim = 8},
                     {.weights = GetParam().weights, .kv_pages = 200, .max_batch_tokens = 300},
                     GetParam().tolerance);
    const SequenceId sequence = twins.Both([](Model& m) { return m.NewSequence(); });
    for (const int length : {53, 71, 64, 53}) {
      twins.Forward({{sequence, RandomTokens(length, kOddVocab, 1), {}, {length - 1}}}, false);
    }
    GraphStory(&twins, 5).Run(40);
    EXPECT_GT(twins.counts().launches, 10);
  }
  EXPECT_THAT(ProductsTried(), ::testing::AllOf(::testing::Contains(0u), ::testing::Contains(1u)));
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_THAT(Misuses(), IsEmpty());
  EXPECT_EQ(LiveCublasObjects(), 0);
}

INSTANTIATE_TEST_SUITE_P(Weights, LibraryProducts,
                         ::testing::Values(Rounding{"F32", WeightType::kF32, 1e-4f},
                                           Rounding{"Bf16", WeightType::kBf16, 3e-2f},
                                           Rounding{"Int4", WeightType::kW4A16, 3e-2f}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace outrider
