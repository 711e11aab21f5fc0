// SpecTr with k-SEQ: Sun et al. 2023 ("SpecTr: Fast Speculative Decoding via Optimal Transport"),
// Algorithms 2 and 3. At each depth the draft tokens after the accepted prefix are tried one by
// one; those equal to the chosen token continue, and their number is the k of the next depth.
//
// In trees (Algorithm 4) the selection is over child nodes: the candidates at a prefix are all
// draft tokens after it. Over the leaves of a branching tree, first tokens would be repeated, not
// i.i.d.
#pragma once

#include "common/rules/rule.h"

namespace outrider {

// The child that k-SEQ takes, trying the draft tokens in the order of sampling; -1 if every trial
// fails.
template <class View, class Coins>
OUTRIDER_LANES int TryCandidates(const View& round, int node, const KSeq& kseq,
                                 const RatioEntry* entries, int n, Coins& coins) {
  for (int i = 0; i < round.draws(node); ++i) {
    const int child = round.draw(node, i);
    const int index = round.Find(entries, n, round.token(child));
    const double accept = index < 0 ? 0 : kseq.Trial(entries[index].p, entries[index].q);
    if (coins.Flip(Purpose::kTrial, round.depth(node), i, accept)) return child;
  }
  return -1;
}

template <class View, class Coins>
OUTRIDER_LANES Stop VerifySpecTr(const View& round, Coins& coins) {
  int node = DraftTree::kRoot;
  while (round.draws(node) > 0) {
    const SparseRow<double> draft = round.Draft(node, 0);
    const RatioEntry* entries = round.Rank(node, draft);
    const KSeq kseq = SolveKSeq(entries, draft.size, round.draws(node));
    const int child = TryCandidates(round, node, kseq, entries, draft.size, coins);
    if (child < 0) {
      // A recovered token that equals a draft token also ends the round: at rho* it has probability
      // 0.
      return {node, 1, round.Over(entries, draft.size, 0, [&](int i) {
                return kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
              })};
    }
    node = child;
  }
  return StopAtLeaf(node);
}

}  // namespace outrider
