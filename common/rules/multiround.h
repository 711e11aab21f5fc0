// Multi-round rejection: Miao et al. 2023 ("SpecInfer"), also EAGLE's and Sequoia's rule with
// independent draft tokens. Each draft token after the accepted prefix is tried against what the
// previous ones have left of the target. It is the well-known baseline; k-SEQ and the multi-path
// block rule accept more.
#pragma once

#include "common/rules/rule.h"

namespace outrider {

template <class View, class Coins>
OUTRIDER_LANES Stop VerifyMultiRound(const View& round, Coins& coins) {
  int node = DraftTree::kRoot;
  while (round.draws(node) > 0) {
    const SparseRow<double> draft = round.Draft(node, 0);
    const RatioEntry* entries = round.Rank(node, draft);
    RecursiveRest rest;
    int chosen = -1;
    for (int i = 0; i < round.draws(node) && chosen < 0; ++i) {
      const int child = round.draw(node, i);
      const int index = round.Find(entries, draft.size, round.token(child));
      const double accept = index < 0 ? 0 : rest.Trial(entries[index].p, entries[index].q);
      if (coins.Flip(Purpose::kTrial, round.depth(node), i, accept)) {
        chosen = child;
      } else {
        rest.Reject(entries, draft.size);
      }
    }
    if (chosen < 0) {
      return {node, 1,
              round.Over(entries, draft.size, 0, [&](int i) { return rest.d * entries[i].q; })};
    }
    node = chosen;
  }
  return StopAtLeaf(node);
}

}  // namespace outrider
