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

// After the warm-up no pass runs directly and none is captured, whatever the sizes of drafts and
// lengths of contexts; the bits are those of passes without added rows.
TEST(Graphs, NoRequestPaysForACapture) {
  for (const KvType kv : {KvType::kBf16, KvType::kF32}) {
    std::vector<std::string> warnings;
    GraphTwins twins(
        Emulated(&warnings), kCheckpoint,
        {.weights = WeightType::kBf16, .kv = kv, .kv_pages = 200, .max_batch_tokens = 90});
    ASSERT_TRUE(WarmUp(&twins.with(), 90).ok());
    const GraphCounts before = twins.counts();
    // 4 powers of two, 7 multiples of 8, 80 and 90; tensor cores have two kernels.
    EXPECT_EQ(before.captures, 13 * 2 * (kv == KvType::kBf16 ? 2 : 1));
    const LateStreams late;
    std::mt19937_64 random(9);
    std::vector<GraphTwins::Share> batch;
    for (const int length : {5, 80, 1, 90}) {
      const SequenceId sequence = twins.Both([](Model& m) { return m.NewSequence(); });
      batch.push_back({sequence, RandomTokens(length, kVocab, random()), {}, {length - 1}});
      ASSERT_NO_FATAL_FAILURE(twins.Forward({batch.back()}, false));
    }
    for (int step = 0; step < 60; ++step) {
      for (GraphTwins::Share& share : batch) {
        const int count = 1 + static_cast<int>(random() % 9);
        share.tokens = RandomTokens(count, kVocab, random());
        share.wanted.resize(static_cast<size_t>(count));
        std::iota(share.wanted.begin(), share.wanted.end(), 0);
        share.parents.clear();
        for (int i = 0; i < count && step % 3 == 0; ++i) {
          share.parents.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(i + 1)) -
                                  1);
        }
      }
      ASSERT_NO_FATAL_FAILURE(
          twins.Forward({batch.begin(), batch.begin() + 1 + step % 4}, step % 5 == 0));
    }
    EXPECT_EQ(twins.counts().captures, before.captures);
    EXPECT_EQ(twins.counts().launches, twins.passes());
    EXPECT_TRUE(warnings.empty());
  }
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
  // At most two numbers of blocks, each run twice without a graph.
  EXPECT_GE(twins.counts().launches, 36);
  EXPECT_LE(twins.counts().captures, 2);
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
