// Greedy block verification: Sun et al. 2025, Appendix C, Algorithms 4 to 6. It accepts more than
// block verification in one round, but is lossless only if the target of the next tokens is
// modified by what the round has taken in advance; over several rounds it accepts less (the authors
// advise against it, their Table 4). It is kept as a reference.
//
// The modified target needs the draft distributions after the round, so losing the drafter would
// cost exactness or the request. Therefore the services do not offer it.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "common/rules/rule.h"

namespace outrider {

// DISTRIBUTIONMODIFY (Algorithm 5, Eq. 31) by carried scalars: one level for each round whose
// modification is not used up. Levels nest, oldest first: each modifies what the previous ones have
// left.
struct GreedyCarry {
  struct Level {
    double ratio = 1;  // joint probability of target over draft since the level's round began
    int left = 0;      // tokens still to be modified
  };
  std::vector<Level> levels;
};

namespace greedy_block {

// One row of the modified target along a path, and how the token after it changes the levels.
class CarriedRow {
 public:
  template <DraftRound Round>
  CarriedRow(Round& round, int node, std::span<const GreedyCarry::Level> levels)
      : target_(round.target(node), round.target(node) + round.vocab()) {
    // Rows after the last draft token are never modified, because levels end before them.
    if (levels.empty() || round.draws(node).size() == 0) return;
    const auto draft = round.draft(node);
    for (const GreedyCarry::Level& level : levels) {
      before_.push_back(target_);
      if (level.left <= round.depth(node)) continue;
      std::vector<double> next = target_;
      for (double& x : next) x *= level.ratio;
      for (int i = 0; i < draft.size; ++i) {
        double& x = next[static_cast<size_t>(draft.ids[i])];
        x = std::max(x - draft.Probability(i), 0.0);
      }
      double sum = 0;
      for (const double x : next) sum += x;
      if (!(sum > 0)) continue;  // the target cannot have produced this path
      for (double& x : next) x /= sum;
      target_ = std::move(next);
    }
  }

  const double* data() const { return target_.data(); }
  // The probability of `token` before level i was applied.
  double Before(size_t i, TokenId token) const { return before_[i][static_cast<size_t>(token)]; }

 private:
  std::vector<double> target_;
  std::vector<std::vector<double>> before_;
};

inline double Quotient(double a, double b) { return b > 0 ? a / b : INFINITY; }

// Along the draft, from the root: the rows that this round verifies against, and each level's ratio
// before each of them.
struct Path {
  std::vector<int> nodes = {DraftTree::kRoot};
  std::vector<CarriedRow> rows;
  std::vector<std::vector<GreedyCarry::Level>> levels;
  std::vector<double> ratio = {1};  // p~_i, not clipped

  size_t length() const { return nodes.size() - 1; }
};

template <DraftRound Round>
Path Follow(Round& round, const GreedyCarry& carry) {
  Path path;
  path.levels.push_back(carry.levels);
  path.rows.emplace_back(round, DraftTree::kRoot, carry.levels);
  while (round.draws(path.nodes.back()).size() > 0) {
    const int node = path.nodes.back();
    const int child = round.draws(node)[0];
    const TokenId token = round.token(child);
    const double q = round.draft(node).Of(token);
    std::vector<GreedyCarry::Level> moved = path.levels.back();
    for (size_t i = 0; i < moved.size(); ++i) {
      if (moved[i].left > round.depth(node)) {
        moved[i].ratio *= Quotient(path.rows.back().Before(i, token), q);
      }
    }
    path.ratio.push_back(q > 0 ? path.ratio.back() * path.rows.back().data()[token] / q : 0);
    path.nodes.push_back(child);
    path.rows.emplace_back(round, child, moved);
    path.levels.push_back(std::move(moved));
  }
  return path;
}

// The probability of accepting up to node i < path.length(), given that nothing longer was
// accepted.
template <DraftRound Round>
double Acceptance(Round& round, const Path& path, size_t i) {
  // Both sums run over the vocabulary: this ratio is not clipped, so S and R differ by more than 1
  // - p.
  const SparseRow<double> draft = round.draft(path.nodes[i]);
  double overlap = 0, drawn = 0;
  for (int x = 0; x < draft.size; ++x) {
    const double q = draft.Probability(x);
    overlap += std::min(path.ratio[i] * path.rows[i].data()[draft.ids[x]], q);
    drawn += q;
  }
  const double s = path.ratio[i] - overlap, r = drawn - overlap;
  return r > 0 ? std::clamp(s / r, 0.0, 1.0) : 1.0;
}

// Updates the state for the next round, after `accepted` draft tokens and `next` were emitted.
// `minus`: the draft distribution after them; empty at a leaf.
inline void Advance(const Path& path, size_t accepted, TokenId next, const SparseRow<double>& minus,
                    GreedyCarry& carry) {
  carry.levels.clear();
  if (next < 0) return;
  const bool leaf = accepted == path.length();
  const auto depth = static_cast<int>(accepted);
  for (size_t i = 0; i < path.levels[accepted].size(); ++i) {
    GreedyCarry::Level level = path.levels[accepted][i];
    if (level.left > depth) {
      level.ratio *= leaf ? 1 : Quotient(path.rows[accepted].Before(i, next), minus.Of(next));
    }
    level.left -= depth + 1;
    if (level.left > 0 && std::isfinite(level.ratio)) carry.levels.push_back(level);
  }
  if (accepted + 1 >= path.length()) return;
  const double joint =
      path.ratio[accepted] * Quotient(path.rows[accepted].data()[next], minus.Of(next));
  // An infinite ratio modifies nothing, as the drafter cannot have produced this path.
  if (std::isfinite(joint)) {
    carry.levels.push_back({.ratio = joint, .left = static_cast<int>(path.length()) - depth - 1});
  }
}

}  // namespace greedy_block

// With one sequence, a node has one draft token. `carry`: the state of the rounds before, empty at
// first; updated for the next round. REQUIRES: the draft is at least as long as any level's
// remaining tokens.
template <DraftRound Round, RoundCoins Coins>
Verdict VerifyGreedyBlock(Round& round, GreedyCarry& carry, Coins& coins) {
  const greedy_block::Path path = greedy_block::Follow(round, carry);
  size_t accepted = 0;
  for (size_t i = path.length(); i > 0 && accepted == 0; --i) {
    const double h = i == path.length() ? std::min(path.ratio[i], 1.0)
                                        : greedy_block::Acceptance(round, path, i);
    if (coins.Flip(Purpose::kAccept, static_cast<int>(i) - 1, 0, h)) accepted = i;
  }
  const int node = path.nodes[accepted];
  const bool leaf = accepted == path.length();
  const SparseRow<double> minus = leaf ? SparseRow<double>{} : round.draft(node);
  const ResidualRow<double> residual{leaf ? 1 : path.ratio[accepted], path.rows[accepted].data(),
                                     round.vocab(), minus};
  const TokenId next = coins.Next(static_cast<int>(accepted), residual);
  greedy_block::Advance(path, accepted, next, minus, carry);
  return {.node = node, .accepted = static_cast<int>(accepted), .next = next};
}

}  // namespace outrider
