// Toy language models small enough to enumerate, and the exact distributions of rounds over them:
// draft tokens and random numbers are integrated out through the production rules
// (common/rules/enumerate.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/math/coins.h"
#include "common/rules/enumerate.h"
#include "tests/support/host_rules.h"

namespace outrider::testing {

using Tokens = std::vector<TokenId>;
using OutputDistribution = EnumeratedPair::Row;
// The distribution of the token after a context.
using Model = std::function<OutputDistribution(std::span<const TokenId>)>;

// A first-order chain: `rows[0]` at the start, else `rows[1 + last token]`.
inline Model Chain(std::vector<OutputDistribution> rows) {
  return [rows](std::span<const TokenId> context) {
    return context.empty() ? rows[0] : rows[1 + static_cast<size_t>(context.back())];
  };
}

// A row determined by a hash. Each entry is 0 with probability `zeros`; one in four rows is peaked,
// and one in eight is a point mass up to 1e-9.
inline OutputDistribution RandomRow(int vocab, uint64_t hash, double zeros) {
  const auto uniform = [hash](uint32_t i) { return Coin(hash, 0, i, Purpose::kPlainToken); };
  const double kind = uniform(0);
  OutputDistribution row(static_cast<size_t>(vocab));
  for (int x = 0; x < vocab; ++x) {
    const auto index = static_cast<uint32_t>(x);
    double& p = row[index];
    p = uniform(2 * index + 2) < zeros ? 0 : uniform(2 * index + 3) + 1e-3;
    if (kind < 0.25) p = p * p * p * p;
    if (kind > 0.875) p *= 1e-9;
  }
  row[static_cast<size_t>(uniform(1) * vocab)] += 0.3;
  const double sum = std::accumulate(row.begin(), row.end(), 0.0);
  for (double& p : row) p /= sum;
  return row;
}

// A model whose row depends on the last `order` tokens of the context (all of them by default).
inline Model RandomModel(int vocab, uint64_t seed, double zeros, size_t order = 64) {
  return [=](std::span<const TokenId> context) {
    uint64_t hash = seed;
    for (const TokenId t : context.last(std::min(order, context.size()))) {
      hash = hash * 1000003 + static_cast<uint64_t>(t) + 1;
    }
    return RandomRow(vocab, hash, zeros);
  };
}

// The toys of the papers' figures that tests/exactness checks. Two tokens: Sun et al. 2025,
// Section 2.
inline EnumeratedPair TwoTokens() {
  const OutputDistribution target = {1.0 / 3, 2.0 / 3}, draft = {2.0 / 3, 1.0 / 3};
  return {2, Chain({target, target, target}), Chain({draft, draft, draft})};
}

// The two-token toy hides several mistakes; this first-order chain does not.
inline EnumeratedPair FourTokens() {
  return {4,
          Chain({{1. / 2, 1. / 4, 1. / 8, 1. / 8},
                 {1. / 6, 1. / 3, 1. / 3, 1. / 6},
                 {1. / 2, 3. / 10, 1. / 10, 1. / 10},
                 {1. / 8, 1. / 8, 1. / 4, 1. / 2},
                 {2. / 5, 1. / 5, 1. / 5, 1. / 5}}),
          Chain({{1. / 4, 1. / 2, 1. / 8, 1. / 8},
                 {1. / 3, 1. / 6, 1. / 6, 1. / 3},
                 {1. / 10, 1. / 10, 3. / 10, 1. / 2},
                 {1. / 2, 1. / 4, 1. / 8, 1. / 8},
                 {1. / 5, 2. / 5, 1. / 5, 1. / 5}})};
}

// The chain for checks of several candidates.
inline EnumeratedPair ThreeTokens() {
  return {3, Chain({{.2, .3, .5}, {.3, .3, .4}, {.4, .1, .5}, {.25, .5, .25}}),
          Chain({{.5, .3, .2}, {.6, .3, .1}, {.2, .5, .3}, {.1, .1, .8}})};
}

// A round over given draft tokens, in double.
class ToyRound {
 public:
  using Real = double;

  ToyRound(const EnumeratedPair& pair, DraftTree tree)
      : tree_(std::move(tree)), vocab_(pair.vocab) {
    std::vector<TokenId> ids(static_cast<size_t>(vocab_));
    std::iota(ids.begin(), ids.end(), 0);
    for (int node = 0; node <= tree_.size(); ++node) {
      target_.push_back(pair.target(tree_.Path(node)));
      const OutputDistribution draft = pair.draft(tree_.Path(node));
      draft_.push_back(RowOf({ids.data(), draft.data(), vocab_, 1}));
    }
  }

  int vocab() const { return vocab_; }
  std::span<const int32_t> draws(int node) const { return tree_.draws(node); }
  TokenId token(int node) const { return tree_.token(node); }
  int depth(int node) const { return tree_.depth(node); }
  int max_depth() const { return tree_.max_depth(); }
  int max_entries() const { return vocab_; }
  SparseRow<double> draft(int node) const { return draft_[static_cast<size_t>(node)].row(); }
  const double* target(int node) const { return target_[static_cast<size_t>(node)].data(); }

 private:
  DraftTree tree_;
  int vocab_;
  std::vector<OutputDistribution> target_;
  std::vector<OwnedRow> draft_;
};

// A way to run a round: calls emit(tokens, accepted, probability) like ForEachEmission.
using Emit = std::function<void(std::span<const TokenId>, int, double)>;
using Emitter = std::function<void(const EnumeratedPair&, std::span<const TokenId> context,
                                   const DraftShape&, const Emit&)>;

inline Emitter EmitterOf(Rule rule, const StopFn& stop = nullptr) {
  return [=](const EnumeratedPair& pair, std::span<const TokenId> context, const DraftShape& shape,
             const Emit& emit) { ForEachEmission(rule, pair, context, shape, stop, emit); };
}

// A rule that is not production code: verify(EnumeratedRound&, EnumeratingCoins&) -> Verdict.
template <class Verify>
Emitter EmitterOfCode(Verify verify) {
  return [=](const EnumeratedPair& pair, std::span<const TokenId> context, const DraftShape& shape,
             const Emit& emit) {
    Enumeration enumeration;
    do {
      EnumeratedRound round(pair, context, shape, &enumeration);
      EnumeratingCoins coins(&enumeration, /*branch_next=*/true);
      const Verdict verdict = verify(round, coins);
      Tokens tokens = round.tree().Path(verdict.node);
      tokens.push_back(verdict.next);
      emit(tokens, verdict.accepted, enumeration.probability());
    } while (enumeration.Advance());
  };
}

inline size_t CellOf(std::span<const TokenId> tokens, int vocab) {
  size_t cell = 0;
  for (const TokenId t : tokens) cell = cell * static_cast<size_t>(vocab) + static_cast<size_t>(t);
  return cell;
}

// Contexts with their probabilities.
using Contexts = std::map<Tokens, double>;

// The distribution over all cells of `total` tokens, when the target completes the contexts.
inline OutputDistribution CompletedDistribution(const EnumeratedPair& pair, Contexts contexts,
                                                size_t total) {
  size_t cells = 1;
  for (size_t i = 0; i < total; ++i) cells *= static_cast<size_t>(pair.vocab);
  OutputDistribution distribution(cells, 0.0);
  while (!contexts.empty()) {
    Contexts longer;
    for (const auto& entry : contexts) {
      const Tokens& context = entry.first;
      const double mass = entry.second;
      if (context.size() >= total) {
        distribution[CellOf(std::span(context).first(total), pair.vocab)] += mass;
        continue;
      }
      const OutputDistribution row = pair.target(context);
      for (TokenId x = 0; x < pair.vocab; ++x) {
        Tokens next = context;
        next.push_back(x);
        if (row[static_cast<size_t>(x)] > 0) longer[next] += mass * row[static_cast<size_t>(x)];
      }
    }
    contexts = std::move(longer);
  }
  return distribution;
}

// The distribution of the first `total` tokens of a generation: one round for each of `rounds`,
// then tokens sampled from the target. Lemma 2 of Sun et al. 2025: it is the target's if and only
// if the rule is lossless.
inline OutputDistribution GenerationDistribution(const Emitter& rule, const EnumeratedPair& pair,
                                                 std::span<const DraftShape> rounds, size_t total) {
  Contexts contexts = {{{}, 1.0}};
  for (const DraftShape& shape : rounds) {
    Contexts after;
    for (const auto& entry : contexts) {
      const Tokens& context = entry.first;
      const double mass = entry.second;
      if (context.size() >= total) {
        after[context] += mass;
        continue;
      }
      rule(pair, context, shape, [&](std::span<const TokenId> tokens, int, double probability) {
        Tokens longer = context;
        longer.insert(longer.end(), tokens.begin(), tokens.end());
        if (longer.size() > total) longer.resize(total);
        after[longer] += mass * probability;
      });
    }
    contexts = std::move(after);
  }
  return CompletedDistribution(pair, std::move(contexts), total);
}

// The distribution of `total` tokens of the target alone.
inline OutputDistribution TargetDistribution(const EnumeratedPair& pair, size_t total) {
  return CompletedDistribution(pair, {{{}, 1.0}}, total);
}

inline double MaxError(const OutputDistribution& a, const OutputDistribution& b) {
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) error = std::max(error, std::abs(a[i] - b[i]));
  return error;
}

inline double TotalVariation(const OutputDistribution& a, const OutputDistribution& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return sum / 2;
}

// The total variation distance of one round followed by the target from the target alone, over
// shape.length + 1 tokens.
inline double RoundError(const Emitter& rule, const EnumeratedPair& pair, const DraftShape& shape) {
  const auto total = static_cast<size_t>(shape.length) + 1;
  return TotalVariation(GenerationDistribution(rule, pair, std::span(&shape, 1), total),
                        TargetDistribution(pair, total));
}

// Pr(i draft tokens are accepted), i = 0..length, in a first round.
inline OutputDistribution AcceptedDistribution(const Emitter& rule, const EnumeratedPair& pair,
                                               const DraftShape& shape) {
  OutputDistribution pmf(static_cast<size_t>(shape.length) + 1, 0.0);
  rule(pair, {}, shape, [&](std::span<const TokenId>, int accepted, double probability) {
    pmf[static_cast<size_t>(accepted)] += probability;
  });
  return pmf;
}
inline OutputDistribution AcceptedDistribution(Rule rule, const EnumeratedPair& pair,
                                               const DraftShape& shape) {
  return AcceptedDistribution(EmitterOf(rule), pair, shape);
}

inline double Mean(const OutputDistribution& pmf) {
  double mean = 0;
  for (size_t i = 0; i < pmf.size(); ++i) mean += static_cast<double>(i) * pmf[i];
  return mean;
}

}  // namespace outrider::testing
