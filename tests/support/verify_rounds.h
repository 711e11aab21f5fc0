// Rounds in the form of a RoundBatch, and the verdicts of the host's own types, for tests of
// verification on a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "common/math/coins.h"
#include "common/rules/host_rounds.h"
#include "common/rules/round_batch.h"
#include "common/spec/draft.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/draft_tree.h"
#include "common/spec/sampling_params.h"
#include "common/spec/sequence_sampling.h"

namespace outrider::testing {

using Rows = std::vector<std::vector<float>>;

struct TestRound {
  Rule rule = Rule::kBlock;
  SamplingParams params;
  std::vector<TokenId> prompt, output;
  DraftTree tree;
  uint64_t seed = 1;
  uint32_t round = 0;
  Rows rows;  // logits by node

  uint32_t position() const { return static_cast<uint32_t>(prompt.size() + output.size()); }
};

// The sampling parameters of the round's sequence, computed without SequenceSampling.
struct TestSampling {
  explicit TestSampling(const TestRound& s) : sampling(RowSamplingOf(s.params)) {
    std::vector<TokenId> tokens = s.prompt;
    tokens.insert(tokens.end(), s.output.begin(), s.output.end());
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (const TokenId t : tokens) {
      seen.push_back({t, static_cast<int32_t>(std::count(s.output.begin(), s.output.end(), t))});
    }
    for (const auto& [token, bias] : s.params.logit_bias) biases.push_back({token, bias});
    if (!s.rows.empty()) mask = MaskOf(s.params, static_cast<int>(s.rows[0].size()));
    for (const std::vector<TokenId>& word : s.params.bad_words) {
      if (word.size() < 2) continue;  // the mask has it
      bad_words.push_back({.first = static_cast<int32_t>(bad_tokens.size()),
                           .size = static_cast<int32_t>(word.size())});
      bad_tokens.insert(bad_tokens.end(), word.begin(), word.end());
    }
    recent = s.output;
  }
  SamplingState state() const {
    return {.sampling = sampling,
            .seen = seen,
            .biases = biases,
            .mask = mask,
            .bad_words = bad_words,
            .bad_tokens = bad_tokens,
            .recent = recent};
  }

  RowSampling sampling;
  std::vector<SeenToken> seen;
  std::vector<TokenBias> biases;
  std::vector<uint32_t> mask;
  std::vector<BadWord> bad_words;
  std::vector<TokenId> bad_tokens, recent;
};

inline void AddTo(RoundBatch& batch, const TestRound& s) {
  const TestSampling sampling(s);
  batch.Add({.rule = s.rule,
             .seed = s.seed,
             .round = s.round,
             .position = s.position(),
             .wants_acceptance = true},
            s.tree, sampling.state());
}

// The host's verdict on these rows of probabilities, as called by the engine.
inline Verdict OnHost(const TestRound& s, const Rows& rows, int vocab) {
  if (s.tree.empty() && s.rule != Rule::kGumbel) {
    return {.next = SampleRow(rows[0], Coin(s.seed, s.round, 0, Purpose::kPlainToken))};
  }
  return VerifyRound(
      s.rule, s.tree,
      [&](int node) { return std::span<const float>(rows[static_cast<size_t>(node)]); }, vocab,
      s.seed, s.round, s.position());
}

inline bool Same(const Verdict& a, const DecidedRound& b) {
  return a.node == b.verdict.node && a.accepted == b.verdict.accepted && a.next == b.verdict.next;
}

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  int Below(int n) { return static_cast<int>(bits_() % static_cast<uint64_t>(n)); }
  double Unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }
  uint64_t Bits() { return bits_(); }

  std::vector<float> Logits(int vocab, bool grid) {
    std::normal_distribution<float> normal(0.f, 3.f);
    std::vector<float> row(static_cast<size_t>(vocab));
    for (float& x : row) x = grid ? std::round(normal(bits_) * 4) / 4 : normal(bits_);
    return row;
  }

  // A draft distribution of at most `entries` tokens below `allowed`.
  DraftDistribution OutputDistribution(int allowed, int entries) {
    std::vector<float> probs = Logits(allowed, false);
    double sum = 0;
    for (float& p : probs) sum += static_cast<double>(p = std::exp(0.5f * p));
    for (float& p : probs) p = static_cast<float>(static_cast<double>(p) / sum);
    return MakeDraftDistribution(probs, {.mass = 0.9995f, .max_entries = entries});
  }

  // A tree sampled from random distributions, with each node branching according to DraftShape.
  DraftTree Tree(const DraftShape& shape, int allowed, int entries) {
    DraftTree tree;
    for (int node = 0; node <= tree.size(); ++node) {
      const int depth = tree.depth(node);
      if (depth >= shape.length || (node > 0 && Below(12) == 0)) continue;  // some end early
      int times = 1;
      if (node > 0) {
        const auto siblings = tree.draws(tree.parent(node));
        times = static_cast<int>(std::count(siblings.begin(), siblings.end(), node));
      }
      const DraftDistribution distribution = OutputDistribution(allowed, entries);
      tree.SetDistribution(node, distribution);
      for (int i = 0; i < times * shape.draws(depth); ++i) {
        tree.AddDraw(node, SampleDraftDistribution(distribution, Unit()));
      }
    }
    return tree;
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace outrider::testing
