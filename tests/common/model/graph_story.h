// Compares a model whose passes run as graphs with one whose passes do not, over the lifetime of a
// service: for the kernels' emulation and for a device.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "tests/common/model/model_testing.h"

namespace outrider {

// Makes the same calls on both models.
class GraphTwins {
 public:
  // make(graphs): a backend of the device. Values of the two may differ by `tolerance` times the
  // largest; 0: by no bit.
  GraphTwins(const std::function<std::unique_ptr<Backend>(bool graphs)>& make,
             const CheckpointOptions& checkpoint, const ModelOptions& options, float tolerance = 0)
      : checkpoint_(checkpoint), tolerance_(tolerance) {
    const TempDirectory directory;
    EXPECT_TRUE(MakeCheckpoint(directory.path(), checkpoint).ok());
    for (const bool graphs : {true, false}) {
      models_.push_back(LoadModel(directory.path(), make(graphs), options).value());
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
      const size_t values = wanted * static_cast<size_t>(vocab());
      logits.emplace_back(output.logits, output.logits + values);
      if (output.hidden == nullptr) continue;
      hidden.emplace_back(output.hidden,
                          output.hidden + wanted * static_cast<size_t>(checkpoint_.hidden_size));
    }
    ++passes_;
    ASSERT_TRUE(Agree(logits[0], logits[1])) << "pass " << passes_;
    if (!hidden.empty()) {
      ASSERT_TRUE(Agree(hidden[0], hidden[1])) << "pass " << passes_;
    }
  }
  template <class F>
  auto Both(F call) {
    call(*models_[1]);
    return call(*models_[0]);
  }
  Model& with() { return *models_[0]; }
  Fp8Counts fp8_counts() const { return models_[0]->device()->fp8_counts(); }
  GraphCounts counts() const { return models_[0]->device()->graph_counts(); }
  int64_t passes() const { return passes_; }
  int vocab() const { return checkpoint_.vocab_size; }

  void ExpectNoGraphsInTheOther() const {
    EXPECT_EQ(models_[1]->device()->graph_counts().launches, 0);
    EXPECT_EQ(models_[1]->device()->graph_counts().captures, 0);
  }

 private:
  bool Agree(const std::vector<float>& one, const std::vector<float>& other) const {
    if (tolerance_ == 0) return BitEqual(one, other);
    if (one.size() != other.size()) return false;
    float largest = 0, difference = 0;
    for (size_t i = 0; i < one.size(); ++i) {
      largest = std::fmax(largest, std::fabs(other[i]));
      difference = std::fmax(difference, std::fabs(one[i] - other[i]));
      if (!std::isfinite(one[i]) || !std::isfinite(other[i])) return false;
    }
    return difference <= tolerance_ * largest;
  }

  const CheckpointOptions checkpoint_;
  const float tolerance_;
  std::vector<std::unique_ptr<Model>> models_;  // with graphs and without
  int64_t passes_ = 0;
};

// The lifetime of a service: sequences come and go, decode, verify trees and keep paths, with
// prompts of all lengths in between.
class GraphStory {
 public:
  GraphStory(GraphTwins* twins, uint64_t seed) : twins_(*twins), random_(seed) {}

  void Run(int steps) {
    while (sequences_.size() < 3) Open(5 + Below(20));
    Open(240);  // will cross the end of a chunk, so that its attention is split
    for (int step = 0; step < steps && !::testing::Test::HasFatalFailure(); ++step) {
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
  using Share = GraphTwins::Share;

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  std::vector<TokenId> Tokens(int count) { return RandomTokens(count, twins_.vocab(), random_()); }
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
  // Sometimes one of the trees is a chain, and rarely all of them.
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
  // A piece of a prompt, without requested rows, next to sequences that decode.
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
  // Back to four sequences, ending those that are too long.
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

  GraphTwins& twins_;
  std::mt19937_64 random_;
  std::vector<SequenceId> sequences_;
};

// Both give the same bits, and most passes were replayed. Contexts reach 320 tokens.
inline void ExpectTheBitsOfPassesWithoutGraphs(GraphTwins& twins, int steps) {
  GraphStory(&twins, 5).Run(steps);
  EXPECT_GT(2 * twins.counts().launches, twins.passes());
  EXPECT_GT(twins.counts().captures, 4);
  twins.ExpectNoGraphsInTheOther();
}

}  // namespace outrider
