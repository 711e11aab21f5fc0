// Compares a CUDA device with the CPU, on random checkpoints of every family. Skipped without a
// device.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "common/backend/create_backend.h"
#include "tests/common/model/draft_story.h"
#include "tests/common/model/graph_story.h"
#include "tests/common/model/model_testing.h"
#include "tests/common/model/verify_story.h"

namespace outrider {
namespace {

struct Case {
  std::string name;
  CheckpointOptions checkpoint;
  bool is_mixture = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CudaParity : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const auto backend = CreateBackend("cuda:0", {});
    if (!backend.ok())
      GTEST_SKIP() << "no CUDA device: skipped (" << backend.status().message() << ")";
    ASSERT_TRUE(MakeCheckpoint(directory_.path(), GetParam().checkpoint).ok());
  }

  std::unique_ptr<Model> Load(const std::string& device, WeightType weights, KvType kv) {
    ModelOptions options = kExactOptions;
    options.weights = weights;
    options.kv = kv;
    return LoadModel(directory_.path(), CreateBackend(device, {}).value(), options).value();
  }

  // A prompt, a tree after it, one path of it kept, a token after that.
  static Rows RunStory(Model& model, int vocabulary) {
    const SequenceId sequence = model.NewSequence();
    Rows rows = Extend(model, sequence, RandomTokens(60, vocabulary, 1));
    const std::vector<int32_t> parents = {-1, -1, 0, 1, 1, 4, 2, 5, 7};
    const Rows tree = Extend(model, sequence, RandomTokens(9, vocabulary, 2), parents);
    rows.insert(rows.end(), tree.begin(), tree.end());
    model.KeepPath(sequence, std::vector<int32_t>{1, 4, 5, 7});
    const Rows last = Extend(model, sequence, RandomTokens(1, vocabulary, 3));
    rows.insert(rows.end(), last.begin(), last.end());
    return rows;
  }

  Rows RowsOf(const std::string& device, WeightType weights, KvType kv) {
    return RunStory(*Load(device, weights, kv), GetParam().checkpoint.vocab_size);
  }

  static std::vector<double> SortedErrors(const Rows& want, const Rows& got) {
    EXPECT_EQ(got.size(), want.size());
    std::vector<double> errors;
    for (size_t i = 0; i < want.size(); ++i) {
      errors.push_back(RelativeError(got[i], std::vector<double>(want[i].begin(), want[i].end())));
    }
    std::sort(errors.begin(), errors.end());
    RecordProperty("worst_error", std::to_string(errors.back()));
    return errors;
  }

  // The error where only one side rounds: the largest one, but for a mixture the median. If a row's
  // last expert and the next one are about equally likely, rounding may select another one.
  static double ErrorOfRounded(const Rows& want, const Rows& got) {
    const std::vector<double> errors = SortedErrors(want, got);
    return GetParam().is_mixture ? errors[errors.size() / 2] : errors.back();
  }

  const TempDirectory directory_;
};

// Float sums in another order, through a few layers.
TEST_P(CudaParity, LogitsAgreeInFloat) {
  const Rows want = RowsOf("cpu", WeightType::kF32, KvType::kF32);
  const Rows got = RowsOf("cuda:0", WeightType::kF32, KvType::kF32);
  EXPECT_LT(SortedErrors(want, got).back(), 1e-4);
}

// The CPU keeps activations in f32, the device rounds them at each product (2^-9 per element).
TEST_P(CudaParity, LogitsAgreeInBf16) {
  const Rows want = RowsOf("cpu", WeightType::kBf16, KvType::kBf16);
  const Rows got = RowsOf("cuda:0", WeightType::kBf16, KvType::kBf16);
  EXPECT_LT(ErrorOfRounded(want, got), 3e-2);
}

// The same with 2^-12 per element, against the CPU in f32, since it does not support f16.
TEST_P(CudaParity, LogitsAgreeInF16) {
  const Rows want = RowsOf("cpu", WeightType::kF32, KvType::kF32);
  const Rows got = RowsOf("cuda:0", WeightType::kF16, KvType::kF16);
  EXPECT_LT(ErrorOfRounded(want, got), 5e-3);
}

// The device's verdicts against the host's on the rows of the same device.
TEST_P(CudaParity, VerdictsAgree) {
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    outrider::testing::ExpectVerdictsOfTheHost(*Load("cuda:0", weights, KvType::kBf16));
  }
}

// Passes as graphs against passes without, on the same device: the same kernels, so the same bits.
TEST_P(CudaParity, GraphsAreBitExact) {
  GraphTwins twins(
      [](bool graphs) { return CreateBackend("cuda:0", {}, {.graphs = graphs}).value(); },
      GetParam().checkpoint,
      {.weights = WeightType::kBf16,
       .kv = KvType::kBf16,
       .kv_pages = 200,
       .max_batch_tokens = 300});
  ExpectTheBitsOfPassesWithoutGraphs(twins, 300);
}

// The picked entries against the rows of the same device.
TEST_P(CudaParity, DraftersReadTheirRows) {
  for (const WeightType weights : {WeightType::kF32, WeightType::kBf16}) {
    outrider::testing::ExpectPicksOfTheRows(*Load("cuda:0", weights, KvType::kBf16));
  }
}

// Several depths without a wait in between against one after another, with graphs and without.
TEST_P(CudaParity, ChainsAreTheHostsDraws) {
  for (const bool graphs : {false, true}) {
    ModelOptions options = kExactOptions;
    options.weights = WeightType::kBf16;
    options.kv = KvType::kBf16;
    const auto model = LoadModel(directory_.path(),
                                 CreateBackend("cuda:0", {}, {.graphs = graphs}).value(), options)
                           .value();
    outrider::testing::ExpectChainsOfTheHostsDraws(*model, 12);
    EXPECT_EQ(model->device()->graph_counts().launches > 0, graphs);
  }
}

// A format, and whether passes run as graphs, which add rows up to a multiple of 8.
class CudaFp8Parity : public ::testing::TestWithParam<std::tuple<StoredAs, bool>> {};

// Products of FP8 with FP8, by the library, read what products of few rows read.
TEST_P(CudaFp8Parity, LongPromptsEqualShortPieces) {
  const auto [stored_as, graphs] = GetParam();
  const CudaBackendOptions rounded = {.graphs = graphs, .fp8_activations = true};
  if (const auto backend = CreateBackend("cuda:0", {}); !backend.ok()) {
    GTEST_SKIP() << "no CUDA device: skipped (" << backend.status().message() << ")";
  }
  const TempDirectory directory;
  constexpr int kVocab = 128;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), {.vocab_size = kVocab,
                                                .hidden_size = 256,
                                                .intermediate_size = 384,
                                                .stored_as = stored_as})
                  .ok());
  const auto model = LoadModel(directory.path(), CreateBackend("cuda:0", {}, rounded).value(),
                               {.weights = WeightType::kBf16, .kv = KvType::kBf16, .kv_pages = 50})
                         .value();
  const std::vector<TokenId> tokens = RandomTokens(122, kVocab, 1);
  const Rows whole = Extend(*model, model->NewSequence(), tokens);
  Rows pieces;
  const SequenceId sequence = model->NewSequence();
  for (size_t begin = 0; begin < tokens.size(); begin += 20) {
    const size_t end = std::min(begin + 20, tokens.size());
    const std::vector<TokenId> piece(tokens.begin() + static_cast<ptrdiff_t>(begin),
                                     tokens.begin() + static_cast<ptrdiff_t>(end));
    const Rows rows = Extend(*model, sequence, piece);
    pieces.insert(pieces.end(), rows.begin(), rows.end());
  }
  // Only these have them, as of CUDA 13.
  const std::string kind = CreateBackend("cuda:0", {}).value()->device()->Kind();
  if (kind.find("H100") != std::string::npos || kind.find("H200") != std::string::npos) {
    EXPECT_GT(model->device()->fp8_counts().products, 0);
  }
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LT(RelativeError(whole[i], std::vector<double>(pieces[i].begin(), pieces[i].end())),
              3e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, CudaFp8Parity,
                         ::testing::Combine(::testing::Values(StoredAs::kFp8Channel,
                                                              StoredAs::kFp8Block128),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           const bool channels = std::get<0>(test.param) == StoredAs::kFp8Channel;
                           return std::string(channels ? "Channels" : "Blocks") +
                                  (std::get<1>(test.param) ? "Graphs" : "");
                         });

INSTANTIATE_TEST_SUITE_P(
    Families, CudaParity,
    ::testing::Values(
        Case{"Llama", {.family = Family::kLlama}},
        Case{"Llama3", {.family = Family::kLlama3, .head_dim = 64}},
        Case{"LlamaHeads128", {.family = Family::kLlama, .hidden_size = 256, .head_dim = 128}},
        Case{"LlamaOddSizes",
             {.family = Family::kLlama,
              .vocab_size = 259,
              .hidden_size = 54,
              .intermediate_size = 75,
              .num_heads = 3,
              .num_kv_heads = 1,
              .head_dim = 24}},
        Case{"Mistral", {.family = Family::kMistral, .sliding_window = 24}},
        Case{"Gemma2",
             {.family = Family::kGemma2, .hidden_size = 72, .num_layers = 3, .head_dim = 256}},
        Case{"Gemma3", {.family = Family::kGemma3, .num_layers = 3, .head_dim = 256}},
        Case{"Olmo2", {.family = Family::kOlmo2, .attention_bias = true}},
        Case{"Granite", {.family = Family::kGranite, .mlp_bias = true}},
        Case{"SmolLm3", {.family = Family::kSmolLm3}},
        Case{"Phi3Partial",
             {.family = Family::kPhi3,
              .head_dim = 96,
              .config = R"({"partial_rotary_factor": 0.75})"}},
        Case{"Qwen2", {.family = Family::kQwen2, .head_dim = 96}},
        Case{"Qwen3", {.family = Family::kQwen3, .head_dim = 32, .tied_embeddings = false}},
        Case{"Mixtral", {.family = Family::kMixtral, .num_layers = 3}, /*is_mixture=*/true},
        Case{"Qwen3MoeInt4",
             {.family = Family::kQwen3Moe,
              .num_experts = 20,
              .experts_per_token = 4,
              .stored_as = StoredAs::kPacked4},
             /*is_mixture=*/true},
        Case{"GptOssMxfp4",
             {.family = Family::kGptOss, .sliding_window = 24, .stored_as = StoredAs::kMxfp4},
             /*is_mixture=*/true}),
    [](const ::testing::TestParamInfo<Case>& param) { return param.param.name; });

}  // namespace
}  // namespace outrider
