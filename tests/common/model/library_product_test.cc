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
  StoredAs stored_as = StoredAs::kFloats;
};
void PrintTo(const Rounding& kind, std::ostream* out) { *out << kind.name; }

class LibraryProducts : public ::testing::TestWithParam<Rounding> {};

// Many numbers of rows are none that the first algorithm takes, and sides are odd, but for FP8.
TEST_P(LibraryProducts, GiveWhatOurKernelsGive) {
  SetAlgorithms({{.workspace_of_column = 1 << 10, .column_multiple = 64}, {}});
  std::vector<std::string> warnings;
  const auto make = [&warnings](bool graphs) {
    auto product = graphs ? CreateCublasProduct().value() : nullptr;
    return CreateEmulatedCudaBackend(
               {.graphs = graphs,
                .fp8_activations = GetParam().stored_as != StoredAs::kFloats,
                .warn = [&warnings](const std::string& w) { warnings.push_back(w); }},
               std::move(product))
        .value();
  };
  CheckpointOptions checkpoint = {.family = Family::kQwen3,
                                  .vocab_size = kOddVocab,
                                  .hidden_size = 36,
                                  .intermediate_size = 43,
                                  .num_layers = 2,
                                  .num_heads = 3,
                                  .num_kv_heads = 1,
                                  .head_dim = 8,
                                  .stored_as = GetParam().stored_as};
  if (checkpoint.stored_as != StoredAs::kFloats) {
    checkpoint.hidden_size = checkpoint.intermediate_size = 48;
    checkpoint.head_dim = 16;
  }
  // A layer's last product has inputs of two blocks.
  if (checkpoint.stored_as == StoredAs::kFp8Block128) {
    checkpoint.hidden_size = 128;
    checkpoint.intermediate_size = 256;
  }
  {
    GraphTwins twins(make, checkpoint,
                     {.weights = GetParam().weights, .kv_pages = 200, .max_batch_tokens = 300},
                     GetParam().tolerance);
    const SequenceId sequence = twins.Both([](Model& m) { return m.NewSequence(); });
    std::vector<int> lengths = {53, 71, 64, 53};
    // More rows than a graph has, so that none are added to make them a multiple of 4.
    if (checkpoint.stored_as == StoredAs::kFp8Block128) lengths.push_back(259);
    for (const int length : lengths) {
      twins.Forward({{sequence, RandomTokens(length, kOddVocab, 1), {}, {length - 1}}}, false);
    }
    GraphStory(&twins, 5).Run(40);
    EXPECT_GT(twins.counts().launches, 10);
    const bool is_fp8 = GetParam().stored_as != StoredAs::kFloats;
    EXPECT_EQ(twins.fp8_counts().matrices, is_fp8 ? 2 * 4 : 0) << "those of both layers";
    EXPECT_EQ(twins.fp8_counts().products > 0, is_fp8);
  }
  EXPECT_THAT(ProductsTried(), ::testing::AllOf(::testing::Contains(0u), ::testing::Contains(1u)));
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_THAT(TakeMisuses(), IsEmpty());
  EXPECT_EQ(LiveCublasObjects(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Weights, LibraryProducts,
    ::testing::Values(Rounding{"F32", WeightType::kF32, 1e-4f},
                      Rounding{"Bf16", WeightType::kBf16, 3e-2f},
                      Rounding{"Int4", WeightType::kW4A16, 3e-2f},
                      Rounding{"Fp8Tensor", WeightType::kBf16, 3e-2f, StoredAs::kFp8Tensor},
                      Rounding{"Fp8Channel", WeightType::kBf16, 3e-2f, StoredAs::kFp8Channel},
                      Rounding{"Fp8Block", WeightType::kBf16, 3e-2f, StoredAs::kFp8Block128}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace outrider
