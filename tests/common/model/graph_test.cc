// A model whose passes run as graphs gives the same bits as one whose passes do not, whatever
// happens between two passes.
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/model/warm_up.h"
#include "tests/common/model/graph_story.h"
#include "tests/common/model/model_testing.h"
#include "tests/support/cuda_emulation/emulated_backend.h"
#include "tests/support/cuda_emulation/emulator.h"

namespace outrider {
namespace {

using cuda_emulation::FailNext;
using cuda_emulation::GraphCall;

constexpr int kVocab = 40;
const CheckpointOptions kCheckpoint = {.family = Family::kQwen3,
                                       .vocab_size = kVocab,
                                       .hidden_size = 32,
                                       .intermediate_size = 40,
                                       .num_layers = 2,
                                       .num_heads = 4,
                                       .num_kv_heads = 2,
                                       .head_dim = 8};

// Backends with graphs and without, whose warnings are appended to `warnings`.
auto Emulated(std::vector<std::string>* warnings) {
  return [warnings](bool graphs) {
    return CreateEmulatedCudaBackend(
               {.graphs = graphs,
                .warn = [warnings](const std::string& w) { warnings->push_back(w); }})
        .value();
  };
}

class LateStreams {
 public:
  LateStreams() { cuda_emulation::SetLate(true); }
  ~LateStreams() { cuda_emulation::SetLate(false); }
};

struct Kind {
  std::string name;
  WeightType weights;
  KvType kv;
  Family family = Family::kQwen3;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class ModelGraphs : public ::testing::TestWithParam<Kind> {};

TEST_P(ModelGraphs, AreBitExact) {
  const Kind& kind = GetParam();
  CheckpointOptions checkpoint = kCheckpoint;
  checkpoint.family = kind.family;
  checkpoint.sliding_window = 30;
  std::vector<std::string> warnings;
  GraphTwins twins(
      Emulated(&warnings), checkpoint,
      {.weights = kind.weights, .kv = kind.kv, .kv_pages = 200, .max_batch_tokens = 300});
  const LateStreams late;
  ExpectTheBitsOfPassesWithoutGraphs(twins, 120);
  EXPECT_TRUE(warnings.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, ModelGraphs,
    ::testing::Values(Kind{"F32", WeightType::kF32, KvType::kF32},
                      Kind{"Bf16", WeightType::kBf16, KvType::kBf16},
                      Kind{"Fp8Cache", WeightType::kBf16, KvType::kFp8},
                      Kind{"SlidingWindow", WeightType::kBf16, KvType::kF32, Family::kMistral},
                      Kind{"GptOss", WeightType::kBf16, KvType::kBf16, Family::kGptOss},
                      Kind{"Mixture", WeightType::kBf16, KvType::kBf16, Family::kMixtral},
                      Kind{"AlternatingWindows", WeightType::kBf16, KvType::kBf16,
                           Family::kGemma2}),
    [](const ::testing::TestParamInfo<Kind>& param) { return param.param.name; });

// The logits of passes of all sizes up to 40 rows: prompts in pieces, chains and trees.
std::vector<std::vector<float>> RunAllSizes(Model& model, int64_t* passes) {
  std::mt19937_64 random(9);
  std::vector<std::vector<float>> logits;
  std::vector<SequenceId> sequences;
  const auto forward = [&](int count, int rows, bool trees) {
    std::vector<std::vector<TokenId>> tokens;
    std::vector<std::vector<int32_t>> wanted, parents;
    std::vector<ForwardSequence> batch;
    for (int s = 0; s < count; ++s) {
      const int n = rows > 0 ? rows : 1 + static_cast<int>(random() % 9);
      tokens.push_back(RandomTokens(n, kVocab, random()));
      std::vector<int32_t>& all = wanted.emplace_back(static_cast<size_t>(n));
      std::iota(all.begin(), all.end(), 0);
      parents.emplace_back();
      for (int i = 0; i < n && trees; ++i) {
        parents.back().push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(i + 1)) - 1);
      }
    }
    for (size_t s = 0; s < tokens.size(); ++s) {
      batch.push_back({sequences[s], tokens[s], parents[s], wanted[s]});
    }
    ForwardOutput output;
    ASSERT_TRUE(model.Forward(batch, false, &output).ok());
    logits.emplace_back(output.logits, output.logits + output.rows * kVocab);
    ++*passes;
  };
  for (int s = 0; s < 4; ++s) sequences.push_back(model.NewSequence());
  for (int piece = 0; piece < 6; ++piece) forward(1, 40, false);  // nearly a chunk of attention
  for (int step = 0; step < 40; ++step) forward(1 + step % 4, 0, step % 3 == 0);
  return logits;
}

// After the warm-up no pass runs directly and none is captured, whatever the sizes of drafts and
// lengths of contexts; the bits are those of passes without added rows.
TEST(Graphs, NoRequestPaysForACapture) {
  for (const KvType kv : {KvType::kBf16, KvType::kF32}) {
    CheckpointOptions checkpoint = kCheckpoint;
    if (kv == KvType::kBf16) checkpoint.head_dim = 16;  // runs on tensor cores
    const TempDirectory directory;
    ASSERT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
    std::vector<std::string> warnings;
    std::vector<std::vector<float>> logits[2];
    for (const bool graphs : {false, true}) {
      const auto model =
          LoadModel(
              directory.path(), Emulated(&warnings)(graphs),
              {.weights = WeightType::kBf16, .kv = kv, .kv_pages = 200, .max_batch_tokens = 40})
              .value();
      ASSERT_TRUE(WarmUp(model.get(), 40).ok());
      const GraphCounts before = model->device()->graph_counts();
      // 4 powers of two and 4 multiples of 8; tensor cores have two kernels of attention.
      EXPECT_EQ(before.captures, graphs ? 8 * 2 * (kv == KvType::kBf16 ? 2 : 1) : 0);
      const LateStreams late;
      int64_t passes = 0;
      logits[graphs] = RunAllSizes(*model, &passes);
      const GraphCounts after = model->device()->graph_counts();
      EXPECT_EQ(after.captures, before.captures);
      EXPECT_EQ(after.launches - before.launches, graphs ? passes : 0);
    }
    ASSERT_EQ(logits[0].size(), logits[1].size());
    for (size_t pass = 0; pass < logits[0].size(); ++pass) {
      ASSERT_TRUE(BitEqual(logits[0][pass], logits[1][pass])) << "pass " << pass;
    }
    EXPECT_TRUE(warnings.empty());
  }
}

// An in-process drafter on the same device starts, works and ends.
TEST(Graphs, SecondModelLeavesThemAlone) {
  const TempDirectory directory;
  ASSERT_TRUE(MakeCheckpoint(directory.path(), kCheckpoint).ok());
  std::vector<std::string> warnings;
  const auto load = [&](int max_rows) {
    auto model =
        LoadModel(directory.path(), Emulated(&warnings)(true),
                  {.weights = WeightType::kBf16, .kv_pages = 400, .max_batch_tokens = max_rows})
            .value();
    EXPECT_TRUE(WarmUp(model.get(), max_rows).ok());
    return model;
  };
  const auto first = load(40);
  const GraphCounts before = first->device()->graph_counts();
  auto second = load(80);
  int64_t passes = 0;
  RunAllSizes(*second, &passes);
  EXPECT_EQ(second->device()->graph_counts().launches, passes);
  passes = 0;
  RunAllSizes(*first, &passes);
  second.reset();
  RunAllSizes(*first, &passes);
  EXPECT_EQ(first->device()->graph_counts().captures, before.captures);
  EXPECT_EQ(first->device()->graph_counts().launches - before.launches, passes);
}

// Sequences whose contexts grow across the ends of pages and chunks, one token at a time.
TEST(Graphs, DecodingIsUnchangedAcrossPages) {
  CheckpointOptions checkpoint = kCheckpoint;
  checkpoint.max_position_embeddings = 600;
  std::vector<std::string> warnings;
  GraphTwins twins(Emulated(&warnings), checkpoint,
                   {.weights = WeightType::kBf16, .kv_pages = 200, .max_batch_tokens = 600});
  const LateStreams late;
  std::vector<SequenceId> sequences;
  for (const int length : {250, 13, 500}) {
    sequences.push_back(twins.Both([](Model& m) { return m.NewSequence(); }));
    twins.Forward({{sequences.back(), RandomTokens(length, kVocab, 3), {}, {}}}, false);
  }
  for (int step = 0; step < 40; ++step) {
    std::vector<GraphTwins::Share> batch;
    for (const SequenceId s : sequences) {
      batch.push_back({s, RandomTokens(1, kVocab, static_cast<uint64_t>(step)), {}, {0}});
    }
    ASSERT_NO_FATAL_FAILURE(twins.Forward(batch, false));
  }
  // One kind of pass, captured again when the memory of partial results grows with the contexts: no
  // graphs were captured beforehand, with as much memory as any pass needs.
  EXPECT_GE(twins.counts().launches, 38);
  EXPECT_LE(twins.counts().captures, 5);
}

// Launches that a layer adds to a pass of one row.
int64_t LaunchesOfALayer(Family family, WeightType weights, int context) {
  std::vector<int64_t> launches;
  for (const int layers : {2, 4}) {
    CheckpointOptions checkpoint = kCheckpoint;
    checkpoint.family = family;
    checkpoint.num_layers = layers;
    checkpoint.intermediate_size = 48;  // whole tiles of codes
    const TempDirectory directory;
    EXPECT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
    const auto model =
        LoadModel(directory.path(), CreateEmulatedCudaBackend({.graphs = false}).value(),
                  {.weights = weights, .kv_pages = 50, .max_batch_tokens = 300})
            .value();
    const SequenceId sequence = model->NewSequence();
    Extend(*model, sequence, RandomTokens(context, kVocab, 4));
    const int64_t before = cuda_emulation::Launches();
    Extend(*model, sequence, RandomTokens(1, kVocab, 5));
    launches.push_back(cuda_emulation::Launches() - before);
  }
  EXPECT_EQ((launches[1] - launches[0]) % 2, 0);
  return (launches[1] - launches[0]) / 2;
}

// Norm, q k v, rotation, attention, its merge after 256 positions, its product, norm, gate and up,
// down.
TEST(Launches, ALayerHasEightOrNine) {
  for (const Family family : {Family::kLlama, Family::kQwen3}) {
    for (const WeightType weights : {WeightType::kBf16, WeightType::kW8A16, WeightType::kW4A16}) {
      EXPECT_EQ(LaunchesOfALayer(family, weights, 5), 8) << WeightTypeName(weights);
      EXPECT_EQ(LaunchesOfALayer(family, weights, 300), 9) << WeightTypeName(weights);
    }
  }
}

class ModelGraphFailure : public ::testing::TestWithParam<GraphCall> {};

TEST_P(ModelGraphFailure, LosesNothing) {
  std::vector<std::string> warnings;
  GraphTwins twins(Emulated(&warnings), kCheckpoint,
                   {.weights = WeightType::kBf16, .kv_pages = 50});
  const SequenceId sequence = twins.Both([](Model& m) { return m.NewSequence(); });
  FailNext(GetParam(), cudaErrorMemoryAllocation);
  for (int step = 0; step < 8; ++step) {
    ASSERT_NO_FATAL_FAILURE(twins.Forward(
        {{sequence, RandomTokens(2, kVocab, static_cast<uint64_t>(step)), {}, {1}}}, true));
  }
  EXPECT_EQ(twins.counts().launches, 0);
  EXPECT_EQ(warnings.size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Calls, ModelGraphFailure,
                         ::testing::Values(GraphCall::kBeginCapture, GraphCall::kEndCapture,
                                           GraphCall::kInstantiate, GraphCall::kLaunch),
                         [](const auto& test) { return GraphCallName(test.param); });

}  // namespace
}  // namespace outrider
