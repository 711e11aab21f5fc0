// Multi-path block verification: of k sequences one path is chosen depth by depth, by a rule that
// sees the tokens of that depth alone, so that the chosen path has a known law at every prefix (the
// skewed row); then the path is verified as one block with the skewed rows in place of the draft's.
//
// Lossless because the draws deeper down are still i.i.d. from the drafter given the chosen prefix:
// the choice has not looked at them. The number of live draws is part of the prefix: its law is the
// same whether the drafter's or the target's tokens led here, so it leaves block verification's
// ratios and residuals alone. With one sequence it is block verification, coin by coin.
//
// Sequences that share block verification's joint acceptance were left open by Sun et al. 2025 and
// treated by arXiv 2602.16961 and 2604.25925; the choice rule here (k-SEQ mixed with the highest
// ratio) is ours.
#pragma once

#include <span>
#include <vector>

#include "common/rules/block.h"
#include "common/rules/candidates.h"
#include "common/rules/spectr.h"

namespace outrider {

// How one of k draws is chosen at a prefix, and the law that the chosen one has.
struct PathChoice {
  KSeq kseq;
  double kseq_share = 1;  // lambda: choose by k-SEQ with this probability, else by ratio
  OwnedRow law;           // over the entries, in their order
};

// lambda on the grid 0, 0.1, .., 1 with the largest overlap of target and law, the least on ties.
// It depends on p, q and k alone.
inline PathChoice ChooseMix(const std::vector<RatioEntry>& entries, int k) {
  const auto n = static_cast<int>(entries.size());
  PathChoice choice{.kseq = SolveKSeq(entries.data(), n, k), .law = RowOver(entries)};
  std::vector<double> by_kseq(entries.size()), by_ratio(entries.size()), mix(entries.size());
  KSeqChoiceLaw(choice.kseq, entries.data(), n, k, by_kseq.data());
  RatioChoiceLaw(entries.data(), n, k, by_ratio.data());
  double best = -1;
  for (int step = 0; step <= kShareSteps; ++step) {
    const double lambda = ShareOfStep(step);
    for (size_t i = 0; i < mix.size(); ++i) {
      mix[i] = MixedChoice(lambda, by_kseq[i], by_ratio[i]);
    }
    const double overlap = Overlap(entries.data(), n, mix.data());
    if (overlap <= best) continue;
    best = overlap;
    choice.kseq_share = lambda;
    choice.law.weights = mix;
  }
  return choice;
}

// The draw that the choice takes behind `node`.
template <DraftRound Round, RoundCoins Coins>
int ChooseDraw(Round& round, int node, const PathChoice& choice,
               const std::vector<RatioEntry>& entries, Coins& coins) {
  const std::span<const int32_t> draws = round.draws(node);
  if (coins.Flip(Purpose::kChoice, round.depth(node), 0, choice.kseq_share)) {
    const int child = TryCandidates(round, node, choice.kseq, entries, coins);
    return child >= 0 ? child : draws[0];
  }
  for (const RatioEntry& entry : entries) {
    for (const int32_t child : draws) {
      if (round.token(child) == entry.id) return child;
    }
  }
  return draws[0];
}

template <DraftRound Round, RoundCoins Coins>
Verdict VerifyMultiPathBlock(Round& round, Coins& coins) {
  using Weight = typename Round::Weight;
  std::vector<int> nodes = {DraftTree::kRoot};
  std::vector<OwnedRow> laws;
  while (!round.draws(nodes.back()).empty()) {
    const int node = nodes.back();
    const auto k = static_cast<int>(round.draws(node).size());
    if (k == 1) {
      const SparseRow<Weight> draft = round.draft(node);
      OwnedRow& law = laws.emplace_back();
      law.ids.assign(draft.ids, draft.ids + draft.size);
      for (int i = 0; i < draft.size; ++i) law.weights.push_back(draft.Probability(i));
      nodes.push_back(round.draws(node)[0]);
      continue;
    }
    const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
    PathChoice choice = ChooseMix(entries, k);
    nodes.push_back(ChooseDraw(round, node, choice, entries, coins));
    laws.push_back(std::move(choice.law));
  }
  std::vector<SparseRow<double>> rows;
  rows.reserve(laws.size());
  for (const OwnedRow& law : laws) rows.push_back(law.row());
  return VerifyPath(round, std::span<const int>(nodes), std::span<const SparseRow<double>>(rows),
                    coins);
}

}  // namespace outrider
