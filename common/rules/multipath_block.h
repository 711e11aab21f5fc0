// Multi-path block verification: chooses one path of k sequences depth by depth, by a choice that
// only sees the tokens of that depth, so that the chosen path has a known distribution at every
// prefix (the skewed one). Then it verifies the path as one block, with the skewed distributions
// instead of the draft's.
//
// It is lossless because the deeper draft tokens are still i.i.d. from the drafter given the chosen
// prefix, which was chosen without them. The number of live draft tokens is part of the prefix: its
// distribution is the same whether the drafter's or the target's tokens led here, so it does not
// affect block verification's ratios and residuals. With one sequence it equals block verification,
// random number by random number.
//
// Sun et al. 2025 left block verification of several sequences open; arXiv 2602.16961 and
// 2604.25925 treat it. The choice here (k-SEQ mixed with the highest ratio) is ours.
#pragma once

#include "common/rules/block.h"
#include "common/rules/spectr.h"

namespace outrider {

// How to choose one of k draft tokens at a prefix.
struct PathChoice {
  KSeq kseq;
  double kseq_share = 1;  // lambda: choose by k-SEQ with this probability, else by ratio

  // Pr(entry i is chosen), after ChooseMix with this scratch memory.
  OUTRIDER_HD double Mixed(const RuleScratch& scratch, int64_t i) const {
    return MixedChoice(kseq_share, scratch.by_kseq[i], scratch.by_ratio[i]);
  }
};

// For k tokens sampled from a distribution with these ranked entries. lambda: of 0, 0.1, .., 1 the
// one with the largest overlap of the target and the choice's distribution, the smallest among
// equals. It depends on p, q and k alone.
template <class Lanes>
OUTRIDER_LANES PathChoice ChooseMix(const RuleScratch& scratch, const Lanes& lanes,
                                    const RatioEntry* entries, int n, int k) {
  PathChoice choice;
  choice.kseq = SolveKSeq(entries, n, k);
  lanes.Sync();
  if (lanes.lane() == 0) QBelow(entries, n, scratch.by_ratio);
  lanes.Sync();
  const double all_but_one_fail = Power(1 - choice.kseq.beta, k - 1);
  for (int i = lanes.lane(); i < n; i += lanes.count()) {
    scratch.by_kseq[i] = KSeqChoice(choice.kseq, entries[i].p, entries[i].q, all_but_one_fail);
    scratch.by_ratio[i] = RatioChoice(entries[i].q, scratch.by_ratio[i], k);
  }
  lanes.Sync();
  for (int step = lanes.lane(); step <= kShareSteps; step += lanes.count()) {
    scratch.overlap[step] =
        OverlapOfMix(ShareOfStep(step), entries, n, scratch.by_kseq, scratch.by_ratio);
  }
  lanes.Sync();
  double best = -1;
  for (int step = 0; step <= kShareSteps; ++step) {
    if (scratch.overlap[step] <= best) continue;
    best = scratch.overlap[step];
    choice.kseq_share = ShareOfStep(step);
  }
  return choice;
}

// The child that the choice takes.
template <class View, class Coins>
OUTRIDER_LANES int ChooseDraw(const View& round, int node, const PathChoice& choice,
                              const RatioEntry* entries, int n, Coins& coins) {
  if (coins.Flip(Purpose::kChoice, round.depth(node), 0, choice.kseq_share)) {
    const int child = TryCandidates(round, node, choice.kseq, entries, n, coins);
    return child >= 0 ? child : round.draw(node, 0);
  }
  int first = n, chosen = round.draw(node, 0);
  for (int i = 0; i < round.draws(node); ++i) {
    const int child = round.draw(node, i);
    const int rank = round.Find(entries, n, round.token(child));
    if (rank < 0 || rank >= first) continue;
    first = rank;
    chosen = child;
  }
  return chosen;
}

template <class View, class Coins>
OUTRIDER_LANES Stop VerifyMultiPathBlock(const View& round, Coins& coins) {
  const RuleScratch& s = round.scratch;
  int g = 0;
  for (int node = DraftTree::kRoot;; ++g) {
    if (round.lanes.lane() == 0) s.nodes[g] = node;
    const int k = round.draws(node);
    if (k == 0) break;
    const SparseRow<double> draft = round.Draft(node, g);
    if (k == 1) {
      node = round.draw(node, 0);
      continue;
    }
    const RatioEntry* entries = round.Rank(node, draft);
    const PathChoice choice = ChooseMix(s, round.lanes, entries, draft.size, k);
    round.Over(entries, draft.size, g, [&](int i) { return choice.Mixed(s, i); });
    node = ChooseDraw(round, node, choice, entries, draft.size, coins);
  }
  round.lanes.Sync();
  return VerifyPath(
      round, g, [&](int i) { return round.Stored(i, s.nodes[i]); }, coins);
}

}  // namespace outrider
