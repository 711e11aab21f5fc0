// SpecTr with k-SEQ: Sun et al. 2023 ("SpecTr: Fast Speculative Decoding via Optimal Transport"),
// Algorithms 2 and 3. At each depth the draws behind the accepted prefix are tried one by one;
// those that agree with the chosen token go on, and their number is the k of the next depth.
//
// Trees (Algorithm 4) are selected over child nodes: the candidates at a prefix are all draws
// behind it. Over the leaves of a branching tree the first tokens would be repeats, not i.i.d.
#pragma once

#include "common/rules/candidates.h"
#include "common/rules/rule.h"

namespace outrider {

// The draw that k-SEQ takes in draft order, -1 if every trial fails.
template <DraftRound Round, RoundCoins Coins>
int TryCandidates(Round& round, int node, const KSeq& kseq, const std::vector<RatioEntry>& entries,
                  Coins& coins) {
  const std::span<const int32_t> draws = round.draws(node);
  for (size_t i = 0; i < draws.size(); ++i) {
    const RatioEntry* entry = FindEntry(entries, round.token(draws[i]));
    const double accept = entry == nullptr ? 0 : kseq.Trial(entry->p, entry->q);
    if (coins.Flip(Purpose::kTrial, round.depth(node), static_cast<int>(i), accept)) {
      return draws[i];
    }
  }
  return -1;
}

template <DraftRound Round, RoundCoins Coins>
Verdict VerifySpecTr(Round& round, Coins& coins) {
  int node = DraftTree::kRoot;
  while (!round.draws(node).empty()) {
    const auto k = static_cast<int>(round.draws(node).size());
    const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
    const auto n = static_cast<int>(entries.size());
    const KSeq kseq = SolveKSeq(entries.data(), n, k);
    const int child = TryCandidates(round, node, kseq, entries, coins);
    if (child < 0) {
      OwnedRow accepted = RowOver(entries);
      for (size_t i = 0; i < entries.size(); ++i) {
        accepted.weights[i] = kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
      }
      // A residual token that some draw carries too ends the round all the same: at rho* it has
      // probability 0.
      return StopAt(round, node, 1, accepted.row(), coins);
    }
    node = child;
  }
  return StopAtLeaf(round, node, coins);
}

}  // namespace outrider
