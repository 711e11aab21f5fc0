// Token verification: Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative
// Decoding"), Algorithm 1. Each draft token stands or falls by itself; the first to fall ends the
// round.
#pragma once

#include "common/rules/rule.h"

namespace outrider {

// One sequence: of a node's draws, the first.
template <DraftRound Round, RoundCoins Coins>
Verdict VerifyToken(Round& round, Coins& coins) {
  int node = DraftTree::kRoot;
  while (!round.draws(node).empty()) {
    const int child = round.draws(node)[0];
    const double accept =
        AcceptedMass(1, round.target(node), round.draft(node), round.token(child));
    if (!coins.Flip(Purpose::kAccept, round.depth(node), 0, accept)) {
      return StopAt(round, node, 1, round.draft(node), coins);
    }
    node = child;
  }
  return StopAtLeaf(round, node, coins);
}

}  // namespace outrider
