// Toy language models small enough to enumerate: the exact laws of one round and of chained rounds,
// with coins integrated out through the production rules.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "verifier/rules/enumerate.h"

namespace outrider::testing {

using Tokens = std::vector<TokenId>;
using Law = std::vector<double>;
// The law of the token behind a context.
using Model = std::function<Law(std::span<const TokenId>)>;

struct ToyPair {
  int vocab = 0;
  Model target;
  Model draft;
};

// A first-order chain: `rows[0]` at the start, else `rows[1 + last token]`.
inline Model Chain(std::vector<Law> rows) {
  return [rows](std::span<const TokenId> context) {
    return context.empty() ? rows[0] : rows[1 + static_cast<size_t>(context.back())];
  };
}

// A model whose row depends on the whole context, by hash; each entry is 0 with probability
// `zeros`, and one of the rows in four is nearly a point mass.
inline Model RandomModel(int vocab, uint64_t seed, double zeros) {
  return [=](std::span<const TokenId> context) {
    uint64_t hash = seed;
    for (const TokenId t : context) hash = hash * 1000003 + static_cast<uint64_t>(t) + 1;
    std::mt19937_64 rng(hash);
    std::uniform_real_distribution<double> uniform;
    Law row(static_cast<size_t>(vocab));
    const bool peaked = uniform(rng) < 0.25;
    double sum = 0;
    for (double& p : row) {
      p = uniform(rng) < zeros ? 0 : uniform(rng) + 1e-3;
      if (peaked) p = p * p * p * p;
    }
    row[rng() % row.size()] += 0.3;
    for (const double p : row) sum += p;
    for (double& p : row) p /= sum;
    return row;
  };
}

// Everything that verification needs for one draft behind one context, in double.
class ToyRound {
 public:
  ToyRound(const ToyPair& pair, Tokens context, Tokens draft) : draft_(std::move(draft)) {
    ids_.resize(static_cast<size_t>(pair.vocab));
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<TokenId>(i);
    for (size_t i = 0; i <= draft_.size(); ++i) {
      const Law target = pair.target(context);
      target_.insert(target_.end(), target.begin(), target.end());
      if (i == draft_.size()) break;
      draft_laws_.push_back(pair.draft(context));
      probability_ *= draft_laws_.back()[static_cast<size_t>(draft_[i])];
      context.push_back(draft_[i]);
    }
    for (const Law& law : draft_laws_) {
      draft_rows_.push_back({ids_.data(), law.data(), pair.vocab, 1});
    }
  }
  ToyRound(const ToyRound&) = delete;
  ToyRound& operator=(const ToyRound&) = delete;

  // Of drafting these tokens.
  double probability() const { return probability_; }
  Round<double, double> round() const {
    return {draft_, draft_rows_, target_, static_cast<int>(ids_.size())};
  }

 private:
  Tokens draft_;
  std::vector<TokenId> ids_;
  std::vector<Law> draft_laws_;
  std::vector<SparseRow<double>> draft_rows_;
  Law target_;
  double probability_ = 1;
};

// Whether a draft ends behind these tokens before its planned length (their own values included:
// a token that was looked at stays).
using StopRule = std::function<bool(std::span<const TokenId>)>;

// Calls visit(draft) for every draft that `stop` and `length` can make.
inline void ForEachDraft(int vocab, int length, const StopRule& stop,
                         const std::function<void(const Tokens&)>& visit) {
  Tokens draft;
  const std::function<void()> extend = [&] {
    const bool ends =
        static_cast<int>(draft.size()) == length || (!draft.empty() && stop && stop(draft));
    if (ends) return visit(draft);
    for (TokenId t = 0; t < vocab; ++t) {
      draft.push_back(t);
      extend();
      draft.pop_back();
    }
  };
  extend();
}

inline size_t CellOf(std::span<const TokenId> tokens, int vocab) {
  size_t cell = 0;
  for (const TokenId t : tokens) cell = cell * static_cast<size_t>(vocab) + static_cast<size_t>(t);
  return cell;
}

// Adds the law of the first `total` tokens of a generation that has emitted `context` with
// probability `mass`: one round for each of `rounds` (draft lengths), then plain draws from the
// target.
inline void AddGenerationLaw(Rule rule, const ToyPair& pair, const Tokens& context, double mass,
                             std::span<const int> rounds, const StopRule& stop, size_t total,
                             Law& cells) {
  if (mass == 0) return;
  if (context.size() >= total) {
    cells[CellOf(std::span(context).first(total), pair.vocab)] += mass;
    return;
  }
  if (rounds.empty()) {
    const Law row = pair.target(context);
    for (TokenId x = 0; x < pair.vocab; ++x) {
      Tokens longer = context;
      longer.push_back(x);
      AddGenerationLaw(rule, pair, longer, mass * row[static_cast<size_t>(x)], rounds, stop, total,
                       cells);
    }
    return;
  }
  ForEachDraft(pair.vocab, rounds[0], stop, [&](const Tokens& draft) {
    const ToyRound toy(pair, context, draft);
    if (toy.probability() == 0) return;
    const Law law = VerdictLaw(rule, toy.round());
    for (size_t tau = 0; tau <= draft.size(); ++tau) {
      for (TokenId x = 0; x < pair.vocab; ++x) {
        Tokens longer = context;
        longer.insert(longer.end(), draft.begin(), draft.begin() + static_cast<long>(tau));
        longer.push_back(x);
        const double share = law[tau * static_cast<size_t>(pair.vocab) + static_cast<size_t>(x)];
        AddGenerationLaw(rule, pair, longer, mass * toy.probability() * share, rounds.subspan(1),
                         stop, total, cells);
      }
    }
  });
}

inline size_t CellCount(int vocab, size_t total) {
  size_t cells = 1;
  for (size_t i = 0; i < total; ++i) cells *= static_cast<size_t>(vocab);
  return cells;
}

// The law of `total` tokens under rounds of these draft lengths.
inline Law GenerationLaw(Rule rule, const ToyPair& pair, std::span<const int> rounds, size_t total,
                         const StopRule& stop = nullptr) {
  Law cells(CellCount(pair.vocab, total), 0.0);
  AddGenerationLaw(rule, pair, {}, 1.0, rounds, stop, total, cells);
  return cells;
}

// The law of `total` tokens of the target alone.
inline Law TargetLaw(const ToyPair& pair, size_t total) {
  return GenerationLaw(Rule::kToken, pair, {}, total);
}

inline double MaxError(const Law& a, const Law& b) {
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) error = std::max(error, std::abs(a[i] - b[i]));
  return error;
}

// Pr(tau = i), i = 0..length, from a fresh start.
inline Law AcceptedLaw(Rule rule, const ToyPair& pair, int length) {
  Law pmf(static_cast<size_t>(length) + 1, 0.0);
  ForEachDraft(pair.vocab, length, nullptr, [&](const Tokens& draft) {
    const ToyRound toy(pair, {}, draft);
    if (toy.probability() == 0) return;
    const Law law = VerdictLaw(rule, toy.round());
    for (size_t cell = 0; cell < law.size(); ++cell) {
      pmf[cell / static_cast<size_t>(pair.vocab)] += toy.probability() * law[cell];
    }
  });
  return pmf;
}

inline double Mean(const Law& pmf) {
  double mean = 0;
  for (size_t i = 0; i < pmf.size(); ++i) mean += static_cast<double>(i) * pmf[i];
  return mean;
}

}  // namespace outrider::testing
