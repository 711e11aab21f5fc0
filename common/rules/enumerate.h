// Integrates over a round's draft tokens and random numbers: the exact distribution of its
// emissions, through the same rule code as in production. For `outrider simulate --exact` and for
// exactness tests.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/types.h"
#include "common/rules/verify.h"

namespace outrider {

// Runs a random procedure once for every combination of its choices: each run replays the choices
// of the previous one up to the last that can still change.
//   Enumeration all;
//   do { .. all.Choose(..) .. use all.probability() } while (all.Advance());
class Enumeration {
 public:
  // Returns an outcome 0, 1, ..; only those with positive probability occur.
  size_t Choose(std::span<const double> distribution) {
    if (step_ == choices_.size()) {
      choices_.push_back({{distribution.begin(), distribution.end()}, 0});
      if (distribution[0] <= 0) ToNext(choices_.back());
    }
    const Choice& choice = choices_[step_++];
    OUTRIDER_CHECK(choice.outcome < choice.distribution.size());
    probability_ *= choice.distribution[choice.outcome];
    return choice.outcome;
  }

  // The probability of this run's choices.
  double probability() const { return probability_; }

  // Prepares the next run; returns false if there is none.
  bool Advance() {
    while (!choices_.empty() && !ToNext(choices_.back())) choices_.pop_back();
    step_ = 0;
    probability_ = 1;
    return !choices_.empty();
  }

 private:
  struct Choice {
    std::vector<double> distribution;
    size_t outcome;
  };
  static bool ToNext(Choice& choice) {
    do {
      ++choice.outcome;
    } while (choice.outcome < choice.distribution.size() &&
             choice.distribution[choice.outcome] <= 0);
    return choice.outcome < choice.distribution.size();
  }

  std::vector<Choice> choices_;
  size_t step_ = 0;
  double probability_ = 1;
};

// The random numbers of one run. Asking twice for the same one uses one number in [0, 1), so that a
// rule which reuses it gets the distribution that it would have in production.
class EnumeratingCoins {
 public:
  // branch_next: the next token is a choice like any other, and Next returns it. Without it
  // (cheaper), Next returns -1 and next_distribution() is its whole distribution.
  explicit EnumeratingCoins(Enumeration* enumeration, bool branch_next = false)
      : enumeration_(enumeration), branch_next_(branch_next) {}

  bool Flip(Purpose purpose, int depth, int trial, double probability) {
    auto [it, is_new] = known_.try_emplace({purpose, depth, trial}, 0.0, 1.0);
    auto& [low, high] = it->second;  // bounds of the number that this run has established
    if (probability >= high) return true;
    if (probability <= low) return false;
    const double share = (probability - low) / (high - low);
    const bool accept = enumeration_->Choose(std::array{share, 1 - share}) == 0;
    (accept ? high : low) = probability;
    return accept;
  }

  template <class Real>
  TokenId Next(int /*depth*/, const ResidualRow<Real>& distribution) {
    next_distribution_.resize(static_cast<size_t>(distribution.vocab));
    distribution.Distribution(next_distribution_.data());
    return branch_next_ ? static_cast<TokenId>(enumeration_->Choose(next_distribution_)) : -1;
  }

  // Distribution of the next token, given this run's choices.
  const std::vector<double>& next_distribution() const { return next_distribution_; }

 private:
  Enumeration* enumeration_;
  bool branch_next_;
  std::map<std::tuple<Purpose, int, int>, std::pair<double, double>> known_;
  std::vector<double> next_distribution_;
};

// A pair of models over a small vocabulary: the distributions of the token after a context.
struct EnumeratedPair {
  using Row = std::vector<double>;  // [vocab]
  int vocab = 0;
  std::function<Row(std::span<const TokenId>)> target;
  std::function<Row(std::span<const TokenId>)> draft;
};

// Whether a draft ends after these tokens (all of its own) before its planned length.
using StopFn = std::function<bool(std::span<const TokenId>)>;

// A round after `context` whose draft tokens are sampled when a rule asks for them, each as a
// choice of the enumeration, so prefixes that the rule does not reach cost nothing.
class EnumeratedRound {
 public:
  using Real = double;

  EnumeratedRound(const EnumeratedPair& pair, std::span<const TokenId> context,
                  const DraftShape& shape, Enumeration* enumeration, const StopFn& stop = nullptr)
      : pair_(pair),
        context_(context.begin(), context.end()),
        shape_(shape),
        enumeration_(enumeration),
        stop_(stop) {}

  const DraftTree& tree() const { return tree_; }
  int vocab() const { return pair_.vocab; }
  int max_depth() const { return shape_.length; }
  int max_entries() const { return pair_.vocab; }
  TokenId token(int node) const { return tree_.token(node); }
  int depth(int node) const { return tree_.depth(node); }
  std::span<const int32_t> draws(int node) {
    Rows& rows = At(node);
    if (!rows.drawn) {
      rows.drawn = true;
      const int draws = Ends(node) ? 0 : Times(node) * shape_.draws(tree_.depth(node));
      for (int i = 0; i < draws; ++i) {
        tree_.AddDraw(node, draft(node).ids[enumeration_->Choose(At(node).draft)]);
      }
    }
    return tree_.draws(node);
  }
  SparseRow<double> draft(int node) {
    Rows& rows = At(node);
    if (rows.draft.empty()) {
      const EnumeratedPair::Row all = pair_.draft(Context(node));
      for (TokenId token = 0; token < pair_.vocab; ++token) {
        const double q = all[static_cast<size_t>(token)];
        if (!(q > 0)) continue;
        rows.draft_ids.push_back(token);
        rows.draft.push_back(q);
      }
    }
    return {rows.draft_ids.data(), rows.draft.data(), static_cast<int>(rows.draft.size()), 1};
  }
  const double* target(int node) {
    Rows& rows = At(node);
    if (rows.target.empty()) rows.target = pair_.target(Context(node));
    return rows.target.data();
  }

 private:
  struct Rows {
    bool drawn = false;
    std::vector<TokenId> draft_ids;
    EnumeratedPair::Row draft;  // of draft_ids
    EnumeratedPair::Row target;
  };
  Rows& At(int node) {
    if (rows_.size() <= static_cast<size_t>(node)) rows_.resize(static_cast<size_t>(node) + 1);
    return rows_[static_cast<size_t>(node)];
  }
  std::vector<TokenId> Context(int node) const {
    std::vector<TokenId> context = context_;
    const std::vector<TokenId> path = tree_.Path(node);
    context.insert(context.end(), path.begin(), path.end());
    return context;
  }
  bool Ends(int node) const {
    if (tree_.depth(node) >= shape_.length) return true;
    return node != DraftTree::kRoot && stop_ && stop_(tree_.Path(node));
  }
  int Times(int node) const {
    if (node == DraftTree::kRoot) return 1;
    const std::span<const int32_t> draws = tree_.draws(tree_.parent(node));
    return static_cast<int>(std::count(draws.begin(), draws.end(), node));
  }

  const EnumeratedPair& pair_;
  std::vector<TokenId> context_;
  DraftShape shape_;
  Enumeration* enumeration_;
  StopFn stop_;
  DraftTree tree_;
  std::deque<Rows> rows_;  // addresses are stable
};

// The emissions of one round with their probabilities: the accepted tokens and the one after them.
// Calls emit(tokens, accepted, probability), possibly several times for the same tokens. For rules
// of Verify(); greedy-block carries a state, and its own tests enumerate it.
inline void ForEachEmission(
    Rule rule, const EnumeratedPair& pair, std::span<const TokenId> context,
    const DraftShape& shape, const StopFn& stop,
    const std::function<void(std::span<const TokenId>, int, double)>& emit) {
  Enumeration enumeration;
  do {
    EnumeratedRound round(pair, context, shape, &enumeration, stop);
    EnumeratingCoins coins(&enumeration);
    const Verdict verdict = Verify(rule, round, coins);
    std::vector<TokenId> tokens = round.tree().Path(verdict.node);
    tokens.push_back(-1);
    for (TokenId x = 0; x < pair.vocab; ++x) {
      const double p = coins.next_distribution()[static_cast<size_t>(x)];
      if (p <= 0) continue;
      tokens.back() = x;
      emit(tokens, verdict.accepted, enumeration.probability() * p);
    }
  } while (enumeration.Advance());
}

}  // namespace outrider
