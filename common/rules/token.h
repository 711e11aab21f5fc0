// Token verification: Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative
// Decoding"), Algorithm 1. Each draft token is accepted or rejected individually; the first
// rejection ends the round.
#pragma once

#include "common/rules/rule.h"

namespace outrider {

// With one sequence, a node has one draft token.
template <class View, class Coins>
OUTRIDER_LANES Stop VerifyToken(const View& round, Coins& coins) {
  int node = DraftTree::kRoot;
  while (round.draws(node) > 0) {
    const SparseRow<double> draft = round.Draft(node, 0);
    const int child = round.draw(node, 0);
    const double accept = round.Accepted(1, node, draft, round.token(child));
    if (!coins.Flip(Purpose::kAccept, round.depth(node), 0, accept)) return {node, 1, draft};
    node = child;
  }
  return StopAtLeaf(node);
}

}  // namespace outrider
