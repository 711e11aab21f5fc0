// A model whose passes run as graphs, beside one whose do not: the same bits, whatever comes
// between two passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

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

// Both models go through the same calls.
class Twins {
 public:
  Twins(const CheckpointOptions& checkpoint, const ModelOptions& options) {
    const TempDirectory directory;
    EXPECT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
    for (const bool graphs : {true, false}) {
      models_.push_back(
          LoadModel(
              directory.path(),
              CreateEmulatedCudaBackend(
                  {.graphs = graphs,
                   .warn = [this](const std::string& warning) { warnings_.push_back(warning); }})
                  .value(),
              options)
              .value());
    }
  }

  // Tokens of one sequence in a pass.
  struct Share {
    SequenceId sequence = -1;
    std::vector<TokenId> tokens;
    std::vector<int32_t> parents, wanted;
  };

  void Forward(const std::vector<Share>& shares, bool want_hidden) {
    std::vector<ForwardSequence> batch;
    size_t wanted = 0;
    for (const Share& share : shares) {
      batch.push_back({share.sequence, share.tokens, share.parents, share.wanted});
      wanted += share.wanted.size();
    }
    std::vector<std::vector<float>> logits, hidden;
    for (const auto& model : models_) {
      ForwardOutput output;
      const ::outrider::Status status = model->Forward(batch, want_hidden, &output);
      ASSERT_TRUE(status.ok()) << status.ToString();
      ASSERT_EQ(static_cast<size_t>(output.rows), wanted);
      logits.emplace_back(output.logits, output.logits + wanted * kVocab);
      if (output.hidden == nullptr) continue;
      hidden.emplace_back(output.hidden,
                          output.hidden + wanted * static_cast<size_t>(kCheckpoint.hidden_size));
    }
    ++passes_;
    ASSERT_TRUE(BitEqual(logits[0], logits[1])) << "pass " << passes_;
    if (!hidden.empty()) {
      ASSERT_TRUE(BitEqual(hidden[0], hidden[1])) << "pass " << passes_;
    }
  }
  template <class F>
  auto Both(F call) {
    call(*models_[1]);
    return call(*models_[0]);
  }
  Model& with() { return *models_[0]; }
  GraphCounts counts() const { return models_[0]->graph_counts(); }
  int64_t passes() const { return passes_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  void ExpectNoGraphsInTheOther() const {
    EXPECT_EQ(models_[1]->graph_counts().launches, 0);
    EXPECT_EQ(models_[1]->graph_counts().captures, 0);
  }

 private:
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<std::string> warnings_;
  int64_t passes_ = 0;
};

class LateStreams {
 public:
  LateStreams() { cuda_emulation::SetLate(true); }
  ~LateStreams() { cuda_emulation::SetLate(false); }
};

// A service's life: sessions come and go, decode, verify trees and keep paths, prompts of all
// lengths come between.
class Story {
 public:
  Story(Twins* twins, uint64_t seed) : twins_(*twins), random_(seed) {}

  void Run(int steps) {
    while (sequences_.size() < 3) Open(5 + Below(20));
    Open(240);  // will pass a chunk's end, and get its attention cut
    for (int step = 0; step < steps && !testing::Test::HasFatalFailure(); ++step) {
      switch (Below(12)) {
        case 0: Fork(); break;
        case 1: Prompt(); break;
        case 2: Mixed(); break;
        case 3: Shorten(); break;
        default: (step / 10 % 2 == 0) ? Decode() : VerifyTrees();
      }
      Shrink();
    }
  }

 private:
  using Share = Twins::Share;

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  std::vector<TokenId> Tokens(int count) { return RandomTokens(count, kVocab, random_()); }
  static std::vector<int32_t> All(int count) {
    std::vector<int32_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }

  void Open(int length) {
    const SequenceId sequence = twins_.Both([](Model& m) { return m.NewSequence(); });
    sequences_.push_back(sequence);
    twins_.Forward({{sequence, Tokens(length), {}, {length - 1}}}, false);
  }
  void Decode() {
    std::vector<Share> batch;
    for (const SequenceId s : sequences_) batch.push_back({s, Tokens(1), {}, {0}});
    twins_.Forward(batch, Below(4) == 0);
  }
  // Now and then one of the trees is a chain, and rarely all.
  void VerifyTrees() {
    constexpr int kNodes = 5;
    const bool chains = Below(8) == 0;
    std::vector<Share> batch;
    for (const SequenceId s : sequences_) {
      std::vector<int32_t> parents;
      for (int i = 0; i < kNodes; ++i) parents.push_back(Below(i + 1) - 1);
      if (chains || Below(5) == 0) parents.clear();
      batch.push_back({s, Tokens(kNodes), parents, All(kNodes)});
    }
    twins_.Forward(batch, false);
    for (const Share& share : batch) {
      std::vector<int32_t> path;
      for (int32_t node = Below(kNodes); node >= 0;) {
        path.insert(path.begin(), node);
        node = share.parents.empty() ? node - 1 : share.parents[static_cast<size_t>(node)];
      }
      twins_.Both([&](Model& m) { return m.KeepPath(share.sequence, path), 0; });
    }
  }
  void Prompt() { Open(1 + Below(60)); }
  // A piece of a prompt, without wanted rows, beside sessions that decode.
  void Mixed() {
    std::vector<Share> batch;
    for (const SequenceId s : sequences_) {
      if (Below(3) == 0) {
        batch.push_back({s, Tokens(1 + Below(30)), {}, {}});
      } else {
        batch.push_back({s, Tokens(1), {}, {0}});
      }
    }
    twins_.Forward(batch, false);
  }
  void Fork() {
    const SequenceId from = sequences_[static_cast<size_t>(Below(4))];
    const int length = 1 + Below(twins_.with().length(from));
    sequences_.push_back(twins_.Both([&](Model& m) { return m.Fork(from, length).value(); }));
  }
  void Shorten() {
    const SequenceId s = sequences_[static_cast<size_t>(Below(4))];
    const int length = twins_.with().length(s) - Below(4);
    twins_.Both([&](Model& m) { return m.Truncate(s, std::max(length, 1)), 0; });
  }
  // Back to four sessions that end before they are too long.
  void Shrink() {
    while (sequences_.size() > 4) End(static_cast<size_t>(Below(5)));
    for (size_t i = 0; i < sequences_.size(); ++i) {
      if (twins_.with().length(sequences_[i]) < 300) continue;
      End(i);
      Open(245);
    }
  }
  void End(size_t i) {
    const SequenceId sequence = sequences_[i];
    sequences_.erase(sequences_.begin() + static_cast<ptrdiff_t>(i));
    twins_.Both([&](Model& m) { return m.Release(sequence), 0; });
  }

  Twins& twins_;
  std::mt19937_64 random_;
  std::vector<SequenceId> sequences_;
};

struct Kind {
  std::string name;
  WeightType weights;
  Dtype kv;
  int sliding_window = 0;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class ModelGraphs : public testing::TestWithParam<Kind> {};

TEST_P(ModelGraphs, GiveTheBitsOfPassesWithoutThem) {
  const Kind& kind = GetParam();
  CheckpointOptions checkpoint = kCheckpoint;
  if (kind.sliding_window > 0) {
    checkpoint.family = Family::kMistral;
    checkpoint.sliding_window = kind.sliding_window;
  }
  Twins twins(checkpoint,
              {.weights = kind.weights, .kv = kind.kv, .kv_pages = 200, .max_batch_tokens = 300});
  const LateStreams late;
  Story(&twins, 5).Run(120);
  RecordProperty("passes", std::to_string(twins.passes()));
  RecordProperty("launches", std::to_string(twins.counts().launches));
  RecordProperty("captures", std::to_string(twins.counts().captures));
  // Most passes were replayed, and graphs were made for several shapes.
  EXPECT_GT(2 * twins.counts().launches, twins.passes());
  EXPECT_GT(twins.counts().captures, 4);
  EXPECT_TRUE(twins.warnings().empty());
  twins.ExpectNoGraphsInTheOther();
}

INSTANTIATE_TEST_SUITE_P(Kinds, ModelGraphs,
                         testing::Values(Kind{"F32", WeightType::kF32, Dtype::kF32},
                                         Kind{"Bf16", WeightType::kBf16, Dtype::kBf16},
                                         Kind{"SlidingWindow", WeightType::kBf16, Dtype::kF32, 30}),
                         [](const testing::TestParamInfo<Kind>& param) {
                           return param.param.name;
                         });

// Sessions whose contexts grow over ends of pages and chunks, one token at a time.
TEST(Graphs, DecodingSessionsStayTheSameOverEndsOfPagesAndChunks) {
  CheckpointOptions checkpoint = kCheckpoint;
  checkpoint.max_position_embeddings = 600;
  Twins twins(checkpoint, {.weights = WeightType::kBf16, .kv_pages = 200, .max_batch_tokens = 600});
  const LateStreams late;
  std::vector<SequenceId> sequences;
  for (const int length : {250, 13, 500}) {
    sequences.push_back(twins.Both([](Model& m) { return m.NewSequence(); }));
    twins.Forward({{sequences.back(), RandomTokens(length, kVocab, 3), {}, {}}}, false);
  }
  for (int step = 0; step < 40; ++step) {
    std::vector<Twins::Share> batch;
    for (const SequenceId s : sequences) {
      batch.push_back({s, RandomTokens(1, kVocab, static_cast<uint64_t>(step)), {}, {0}});
    }
    ASSERT_NO_FATAL_FAILURE(twins.Forward(batch, false));
  }
  // Two numbers of blocks at most, each run twice without a graph.
  EXPECT_GE(twins.counts().launches, 36);
  EXPECT_LE(twins.counts().captures, 2);
}

class ModelGraphFailure : public testing::TestWithParam<GraphCall> {};

TEST_P(ModelGraphFailure, LosesNothing) {
  Twins twins(kCheckpoint, {.weights = WeightType::kBf16, .kv_pages = 50});
  const SequenceId sequence = twins.Both([](Model& m) { return m.NewSequence(); });
  FailNext(GetParam(), cudaErrorMemoryAllocation);
  for (int step = 0; step < 8; ++step) {
    ASSERT_NO_FATAL_FAILURE(twins.Forward(
        {{sequence, RandomTokens(2, kVocab, static_cast<uint64_t>(step)), {}, {1}}}, true));
  }
  EXPECT_EQ(twins.counts().launches, 0);
  EXPECT_EQ(twins.warnings().size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Calls, ModelGraphFailure,
                         testing::Values(GraphCall::kBeginCapture, GraphCall::kEndCapture,
                                         GraphCall::kInstantiate, GraphCall::kLaunch));

}  // namespace
}  // namespace outrider
