// Drafts that answer a plan as an honest drafter would, with distributions and tokens from the
// input's bytes.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "common/spec/draft.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/draft_tree.h"
#include "tests/fuzz/fuzz_input.h"

namespace outrider::fuzz {

class DraftMaker {
 public:
  DraftMaker(DraftShape shape, DraftKind kind, int vocab)
      : shape_(std::move(shape)), kind_(kind), vocab_(vocab) {}

  // Whether everything has been drafted, or nothing was requested.
  bool done() const { return depth_ >= shape_.length || live_.empty(); }

  // The next part: some whole depths. REQUIRES: !done().
  DraftChunk Next(Input& in) {
    DraftChunk chunk;
    for (int depths = 1 + in.Below(4); depths > 0 && !done(); --depths) Grow(in, &chunk);
    chunk.more = !done();
    return chunk;
  }

 private:
  void Grow(Input& in, DraftChunk* chunk) {
    std::vector<int> nodes;  // distinct nodes that are continued
    for (const int node : live_) {
      if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
    }
    std::vector<int> next;
    for (const int node : nodes) {
      const auto times = static_cast<int>(std::count(live_.begin(), live_.end(), node));
      const int draws = times * shape_.draws(depth_);
      DraftDistribution distribution = MakeDistribution(in);
      for (int i = 0; i < draws; ++i) {
        TokenId token =
            distribution
                .ids[static_cast<size_t>(in.Below(static_cast<int>(distribution.ids.size())))];
        if (kind_ != DraftKind::kSampled) {  // distinct, maybe fewer
          token = in.Below(vocab_);
          if (tree_.Child(node, token) >= 0) continue;
        }
        next.push_back(tree_.AddDraw(node, token));
        chunk->tokens.push_back(token);
        chunk->parents.push_back(node);
      }
      if (kind_ == DraftKind::kSampled) chunk->distributions.push_back(std::move(distribution));
    }
    live_ = std::move(next);
    ++depth_;
  }

  DraftDistribution MakeDistribution(Input& in) const {
    const int entries = std::min(1 + in.Below(4), vocab_);
    const int first = in.Below(vocab_ - entries + 1);
    DraftDistribution distribution;
    uint32_t left = kDraftWeightTotal;
    for (int i = 0; i < entries; ++i) {
      const uint32_t weight = i + 1 == entries ? left : 1u + 64u * in.Byte();
      distribution.ids.push_back(first + i);
      distribution.weights.push_back(weight);
      left -= weight;
    }
    return distribution;
  }

  DraftShape shape_;
  DraftKind kind_;
  int vocab_;
  int depth_ = 0;
  DraftTree tree_;
  std::vector<int> live_ = {DraftTree::kRoot};  // a node for each token of the last depth
};

}  // namespace outrider::fuzz
