// Block verification: Sun et al. 2025 ("Block Verification Accelerates Speculative Decoding"),
// Algorithm 2. The longest accepted prefix stands, also behind shorter ones that were rejected; in
// expectation no rule that sees one draft accepts more (Theorem 2). With g = 1, temperature 0 or
// point-mass drafts it has token verification's law.
#pragma once

#include <span>
#include <vector>

#include "common/rules/rule.h"

namespace outrider {

// The block nodes[0] (the root) .. nodes[g], where laws[i] is the law that nodes[i + 1] has among
// the tokens behind nodes[i]: the draft row for one sequence, the chosen one's row for several.
template <DraftRound Round, class Weight, RoundCoins Coins>
Verdict VerifyPath(Round& round, std::span<const int> nodes,
                   std::span<const SparseRow<Weight>> laws, Coins& coins) {
  // p[i] = Pr(at least i tokens stand | X_1..X_i). It recovers where the target likes a later token
  // better than the drafter does: only p = 0 is final.
  std::vector<double> p(nodes.size(), 1.0);
  for (size_t i = 1; i < nodes.size(); ++i) {
    p[i] = AcceptedMass(p[i - 1], round.target(nodes[i - 1]), laws[i - 1], round.token(nodes[i]));
  }

  // The paper walks forward and keeps the last success. Coins are independent, so walking backward
  // to the first success has the same law and reads fewer rows.
  const size_t g = laws.size();
  for (size_t i = g; i > 0; --i) {
    // A leaf: no token follows it in the draft.
    const double h =
        i == g ? p[i] : InnerAcceptance(p[i], ResidualMass(p[i], round.target(nodes[i]), laws[i]));
    if (!coins.Flip(Purpose::kAccept, static_cast<int>(i) - 1, 0, h)) continue;
    return i == g ? StopAtLeaf(round, nodes[i], coins)
                  : StopAt(round, nodes[i], p[i], laws[i], coins);
  }
  return g == 0 ? StopAtLeaf(round, nodes[0], coins) : StopAt(round, nodes[0], 1, laws[0], coins);
}

// One sequence: of a node's draws, the first.
template <DraftRound Round, RoundCoins Coins>
Verdict VerifyBlock(Round& round, Coins& coins) {
  std::vector<int> nodes = {DraftTree::kRoot};
  std::vector<SparseRow<typename Round::Weight>> laws;
  while (!round.draws(nodes.back()).empty()) {
    laws.push_back(round.draft(nodes.back()));
    nodes.push_back(round.draws(nodes.back())[0]);
  }
  return VerifyPath(round, std::span<const int>(nodes),
                    std::span<const SparseRow<typename Round::Weight>>(laws), coins);
}

}  // namespace outrider
