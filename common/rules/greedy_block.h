// Greedy block verification: Sun et al. 2025, Appendix C, Algorithms 4 to 6. Accepts more than
// block verification in one round, but is lossless only if the target of the next tokens is
// modified by what the round has taken in advance; over several rounds it accepts less (the authors
// advise against it, their Table 4). Kept because it is in the paper.
//
// The modified target needs the drafter's rows of the tokens behind the round: a drafter that is
// lost then would cost exactness or the request. The services do not offer it for that reason.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "common/rules/rule.h"

namespace outrider {

// DISTRIBUTIONMODIFY (Algorithm 5, Eq. 31) by carried scalars: one level a round whose modification
// is not used up. Levels nest, oldest first: each modifies what the ones before have left.
struct GreedyCarry {
  struct Level {
    double ratio = 1;  // joint probability of target over draft, since the level's round began
    int left = 0;      // tokens still to be modified
  };
  std::vector<Level> levels;
};

namespace greedy_block {

// One row of the modified target along a path, and how the levels move over the token behind it.
class CarriedRow {
 public:
  template <DraftRound Round>
  CarriedRow(Round& round, int node, std::span<const GreedyCarry::Level> levels)
      : target_(round.target(node), round.target(node) + round.vocab()) {
    // Rows behind the last draft token are never modified: levels end before them.
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
      if (!(sum > 0)) continue;  // the target cannot have come here
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

}  // namespace greedy_block

// One sequence: of a node's draws, the first. `carry`: of the rounds before, empty at first;
// becomes what the next round needs. REQUIRES: the draft is at least as long as any level has left.
template <DraftRound Round, RoundCoins Coins>
Verdict VerifyGreedyBlock(Round& round, GreedyCarry& carry, Coins& coins) {
  using Level = GreedyCarry::Level;
  // Along the draft: the rows that this round really verifies against, and each level's ratio in
  // front of each of them.
  std::vector<int> nodes = {DraftTree::kRoot};
  std::vector<greedy_block::CarriedRow> rows;
  std::vector<std::vector<Level>> levels = {carry.levels};
  rows.emplace_back(round, nodes[0], levels[0]);
  std::vector<double> ratio = {1};  // p~_i, not clipped
  const auto quotient = [](double a, double b) { return b > 0 ? a / b : INFINITY; };
  while (round.draws(nodes.back()).size() > 0) {
    const int node = nodes.back();
    const int child = round.draws(node)[0];
    const TokenId token = round.token(child);
    const double q = round.draft(node).Of(token);
    std::vector<Level> moved = levels.back();
    for (size_t i = 0; i < moved.size(); ++i) {
      if (moved[i].left > round.depth(node)) {
        moved[i].ratio *= quotient(rows.back().Before(i, token), q);
      }
    }
    ratio.push_back(q > 0 ? ratio.back() * rows.back().data()[token] / q : 0);
    nodes.push_back(child);
    rows.emplace_back(round, child, moved);
    levels.push_back(std::move(moved));
  }

  const size_t g = nodes.size() - 1;
  size_t tau = 0;
  for (size_t i = g; i > 0 && tau == 0; --i) {
    double h = std::min(ratio[i], 1.0);
    if (i < g) {
      // Both sums over the vocabulary: this ratio is not clipped, so S and R differ by more than
      // 1 - p.
      const SparseRow<double> draft = round.draft(nodes[i]);
      double overlap = 0, drawn = 0;
      for (int x = 0; x < draft.size; ++x) {
        const double q = draft.Probability(x);
        overlap += std::min(ratio[i] * rows[i].data()[draft.ids[x]], q);
        drawn += q;
      }
      const double s = ratio[i] - overlap, r = drawn - overlap;
      h = r > 0 ? std::clamp(s / r, 0.0, 1.0) : 1.0;
    }
    if (coins.Flip(Purpose::kAccept, static_cast<int>(i) - 1, 0, h)) tau = i;
  }

  const int node = nodes[tau];
  const bool leaf = tau == g;
  const SparseRow<double> minus = leaf ? SparseRow<double>{} : round.draft(node);
  const ResidualRow<double> distribution{leaf ? 1 : ratio[tau], rows[tau].data(), round.vocab(),
                                         minus};
  const TokenId next = coins.Next(static_cast<int>(tau), distribution);
  const int emitted = static_cast<int>(tau) + 1;

  carry.levels.clear();
  if (next >= 0) {
    for (size_t i = 0; i < levels[tau].size(); ++i) {
      Level level = levels[tau][i];
      if (level.left > static_cast<int>(tau)) {
        level.ratio *= leaf ? 1 : quotient(rows[tau].Before(i, next), minus.Of(next));
      }
      level.left -= emitted;
      if (level.left > 0 && std::isfinite(level.ratio)) carry.levels.push_back(level);
    }
    if (tau + 1 < g) {
      const double joint = ratio[tau] * quotient(rows[tau].data()[next], minus.Of(next));
      // An infinite ratio modifies nothing: the drafter cannot have come here.
      if (std::isfinite(joint)) {
        carry.levels.push_back({.ratio = joint, .left = static_cast<int>(g - tau) - 1});
      }
    }
  }
  return {.node = node, .accepted = static_cast<int>(tau), .next = next};
}

}  // namespace outrider
