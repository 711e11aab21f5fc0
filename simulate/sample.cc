#include "simulate/sample.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "common/math/coins.h"
#include "common/math/philox.h"
#include "common/rules/candidates.h"
#include "common/rules/greedy_block.h"
#include "common/rules/host_rounds.h"
#include "common/rules/philox_coins.h"
#include "common/rules/verify.h"
#include "common/spec/race.h"

namespace outrider {
namespace {

using Tokens = std::vector<TokenId>;

uint64_t GenerationSeed(uint64_t seed, uint64_t generation) {
  const PhiloxBlock block =
      Philox({{static_cast<uint32_t>(generation), static_cast<uint32_t>(generation >> 32), 0, 1}},
             static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  return (static_cast<uint64_t>(block.word[0]) << 32) | block.word[1];
}

// Rows as in production, by the previous token (index last + 1).
struct FloatRows {
  explicit FloatRows(const MarkovChain& chain) {
    for (const std::vector<double>& row : chain.rows) rows.emplace_back(row.begin(), row.end());
  }
  std::span<const float> Row(TokenId last) const { return rows[static_cast<size_t>(last + 1)]; }

  std::vector<std::vector<float>> rows;
};

// A sampled tree after `last`, with the pair's own rows.
class PairRound {
 public:
  using Real = double;

  PairRound(const MarkovPair& pair, const DraftTree& tree, TokenId last)
      : pair_(pair), tree_(tree), last_(last), drafts_(static_cast<size_t>(tree.size()) + 1) {}

  int vocab() const { return pair_.vocab; }
  int max_depth() const { return tree_.max_depth(); }
  int max_entries() const { return pair_.vocab; }
  std::span<const int32_t> draws(int node) const { return tree_.draws(node); }
  TokenId token(int node) const { return tree_.token(node); }
  int depth(int node) const { return tree_.depth(node); }
  SparseRow<double> draft(int node) {
    OwnedRow& draft = drafts_[static_cast<size_t>(node)];
    if (draft.ids.empty()) draft = RowOf(pair_.DraftRow(Last(node)));
    return draft.row();
  }
  const double* target(int node) const { return pair_.target.Row(Last(node)).data(); }

 private:
  TokenId Last(int node) const { return node == DraftTree::kRoot ? last_ : tree_.token(node); }

  const MarkovPair& pair_;
  const DraftTree& tree_;
  TokenId last_;
  std::vector<OwnedRow> drafts_;  // by node, as far as needed
};

// Samples the children of a node whose token is `last`: from number `first` on at this depth.
using DrawFn = std::function<Tokens(TokenId last, int depth, int first, int draws)>;

// A tree of this shape. `distinct`: the children of a node are different tokens, and each is
// continued once (the race); otherwise equal children share a node, which is continued as often.
DraftTree GrowTree(const DraftShape& shape, TokenId last, bool distinct, const DrawFn& draw) {
  DraftTree tree;
  int begin = DraftTree::kRoot, end = 1;  // the nodes of this depth
  std::vector<int> times = {1};           // for each node, how many draft sequences share it
  for (int depth = 0; depth < shape.length; ++depth) {
    int drawn = 0;
    for (int node = begin; node < end; ++node) {
      const int draws = shape.draws(depth) * (distinct ? 1 : times[static_cast<size_t>(node)]);
      const TokenId before = node == DraftTree::kRoot ? last : tree.token(node);
      for (const TokenId token : draw(before, depth, drawn, draws)) {
        const auto child = static_cast<size_t>(tree.AddDraw(node, token));
        times.resize(std::max(times.size(), child + 1));
        ++times[child];
      }
      drawn += draws;
    }
    begin = end;
    end = tree.size() + 1;
  }
  return tree;
}

// One generation, round by round.
class Generation {
 public:
  Generation(const Simulation& simulation, const FloatRows& target, const FloatRows& draft,
             const std::vector<DraftDistribution>& distributions, uint64_t seed)
      : simulation_(simulation),
        target_(target),
        draft_(draft),
        distributions_(distributions),
        seed_(seed) {}

  const Tokens& tokens() const { return tokens_; }

  // Appends the tokens of the next round; returns how many draft tokens were accepted.
  int Round() {
    const bool race = simulation_.rule == Rule::kGumbel;
    const TokenId last = tokens_.empty() ? -1 : tokens_.back();
    DraftTree tree =
        GrowTree(simulation_.shape, last, race, [&](TokenId before, int depth, int first, int n) {
          return race ? RaceWinners(draft_.Row(before), n, seed_, Position(depth))
                      : Drawn(before, depth, first, n);
        });
    const Verdict verdict = Verified(tree, last);
    const Tokens path = tree.Path(verdict.node);
    tokens_.insert(tokens_.end(), path.begin(), path.end());
    tokens_.push_back(verdict.next);
    ++round_;
    return verdict.accepted;
  }

 private:
  uint32_t Position(int depth) const {
    return static_cast<uint32_t>(tokens_.size()) + static_cast<uint32_t>(depth);
  }

  Tokens Drawn(TokenId last, int depth, int first, int draws) const {
    const MarkovPair& pair = simulation_.pair;
    Tokens tokens;
    for (int i = first; i < first + draws; ++i) {
      const double coin = Coin(seed_, round_, static_cast<uint32_t>(depth), Purpose::kDraftToken,
                               static_cast<uint32_t>(i));
      tokens.push_back(
          distributions_.empty()
              ? ResidualRow<double>{1, pair.draft.Row(last).data(), pair.vocab, {}}.Draw(coin)
              : SampleDraftDistribution(distributions_[static_cast<size_t>(last + 1)], coin));
    }
    return tokens;
  }

  Verdict Verified(DraftTree& tree, TokenId last) {
    const auto token_at = [&](int node) {
      return node == DraftTree::kRoot ? last : tree.token(node);
    };
    if (simulation_.rule != Rule::kGumbel && distributions_.empty()) {
      PairRound round(simulation_.pair, tree, last);
      PhiloxCoins coins(seed_, round_);
      return simulation_.greedy_block ? VerifyGreedyBlock(round, carry_, coins)
                                      : Verify(simulation_.rule, round, coins);
    }
    for (int node = 0; node <= tree.size() && !distributions_.empty(); ++node) {
      if (tree.draws(node).empty()) continue;
      tree.SetDistribution(node, distributions_[static_cast<size_t>(token_at(node) + 1)]);
    }
    return VerifyRound(
        simulation_.rule, tree, [&](int node) { return target_.Row(token_at(node)); },
        simulation_.pair.vocab, seed_, round_, Position(0));
  }

  const Simulation& simulation_;
  const FloatRows& target_;
  const FloatRows& draft_;
  const std::vector<DraftDistribution>& distributions_;  // by last + 1; empty: rows of doubles
  uint64_t seed_;
  uint32_t round_ = 0;
  Tokens tokens_;
  GreedyCarry carry_;
};

// Mean and standard error of a stream of numbers.
class Average {
 public:
  void Add(double x) {
    ++count_;
    const double off = x - mean_;
    mean_ += off / count_;
    squares_ += off * (x - mean_);
  }
  double mean() const { return mean_; }
  double error() const { return count_ > 1 ? std::sqrt(squares_ / (count_ - 1) / count_) : 0; }

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;  // of the deviations (Welford)
};

}  // namespace

SimulationFigures SampleFigures(const Simulation& simulation, int64_t generations, uint64_t seed,
                                bool wire) {
  const FloatRows target(simulation.pair.target), draft(simulation.pair.draft);
  std::vector<DraftDistribution> distributions;
  if (wire && !simulation.greedy_block) {
    for (const auto& row : simulation.pair.draft.rows)
      distributions.push_back(WireDistribution(row));
  }
  const auto total = static_cast<size_t>(simulation.shape.length) + 1;
  const auto chain = static_cast<size_t>(simulation.chain);
  const double share = 1 / static_cast<double>(generations);

  SimulationFigures figures{.rounds = generations,
                            .accepted_distribution = std::vector<double>(total),
                            .mean_tokens = {},
                            .mean_tokens_error = {},
                            .first_token_distribution = {},
                            .sequence_distribution = {}};
  Average accepted;
  std::vector<Average> emitted(chain);
  std::map<Tokens, int64_t> sequences;
  std::vector<int64_t> accepted_counts(total);
  for (int64_t n = 0; n < generations; ++n) {
    Generation generation(simulation, target, draft, distributions,
                          GenerationSeed(seed, static_cast<uint64_t>(n)));
    for (size_t round = 0; round < chain || generation.tokens().size() < total; ++round) {
      const int accepted_now = generation.Round();
      if (round == 0) {
        accepted.Add(accepted_now);
        ++accepted_counts[static_cast<size_t>(accepted_now)];
      }
      if (round < chain) emitted[round].Add(static_cast<double>(generation.tokens().size()));
    }
    const auto end = generation.tokens().begin() + static_cast<std::ptrdiff_t>(total);
    ++sequences[Tokens(generation.tokens().begin(), end)];
  }

  figures.mean_accepted = accepted.mean();
  figures.standard_error = accepted.error();
  for (size_t i = 0; i < total; ++i) {
    figures.accepted_distribution[i] = static_cast<double>(accepted_counts[i]) * share;
  }
  for (const Average& tokens : emitted) {
    figures.mean_tokens.push_back(tokens.mean());
    figures.mean_tokens_error.push_back(tokens.error());
  }
  figures.first_token_distribution.resize(static_cast<size_t>(simulation.pair.vocab));
  for (const auto& [tokens, times] : sequences) {
    const double frequency = static_cast<double>(times) * share;
    figures.sequence_distribution[tokens] = frequency;
    figures.first_token_distribution[static_cast<size_t>(tokens[0])] += frequency;
  }
  return figures;
}

}  // namespace outrider
