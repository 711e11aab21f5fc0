// Block verification: Sun et al. 2025 ("Block Verification Accelerates Speculative Decoding"),
// Algorithm 2. The longest accepted prefix counts, even if shorter ones were rejected; in
// expectation no rule for one draft sequence accepts more (Theorem 2). With one draft token,
// temperature 0 or point-mass drafts it equals token verification.
#pragma once

#include "common/rules/rule.h"

namespace outrider {

// The block scratch.nodes[0] (the root) .. scratch.nodes[g]. draft_at(i): the distribution of
// nodes[i + 1] among the tokens after nodes[i]: the draft distribution for one sequence, that of
// the chosen sequence for several.
template <class View, class DraftAt, class Coins>
OUTRIDER_LANES Stop VerifyPath(const View& round, int g, DraftAt draft_at, Coins& coins) {
  const RuleScratch& s = round.scratch;
  // p[i] = Pr(at least i tokens are accepted | X_1..X_i). It recovers if the target likes a later
  // token more than the drafter does: only p = 0 is final.
  double p = 1;
  for (int i = 0; i <= g; ++i) {
    if (i > 0) p = round.Accepted(p, s.nodes[i - 1], draft_at(i - 1), round.token(s.nodes[i]));
    if (round.lanes.lane() == 0) s.p[i] = p;
  }
  round.lanes.Sync();

  // The paper walks forward and keeps the last success. The random numbers are independent, so
  // walking backward to the first success has the same distribution and reads fewer rows.
  for (int i = g; i > 0; --i) {
    const int node = s.nodes[i];
    // A leaf has no draft tokens after it.
    const double h =
        i == g ? s.p[i] : InnerAcceptance(s.p[i], round.Residual(s.p[i], node, draft_at(i)));
    if (!coins.Flip(Purpose::kAccept, i - 1, 0, h)) continue;
    if (i == g) return StopAtLeaf(node);
    return {node, s.p[i], draft_at(i)};
  }
  if (g == 0) return StopAtLeaf(s.nodes[0]);
  return {s.nodes[0], 1, draft_at(0)};
}

// With one sequence, a node has one draft token.
template <class View, class Coins>
OUTRIDER_LANES Stop VerifyBlock(const View& round, Coins& coins) {
  const RuleScratch& s = round.scratch;
  int g = 0;
  for (int node = DraftTree::kRoot;; ++g) {
    if (round.lanes.lane() == 0) s.nodes[g] = node;
    if (round.draws(node) == 0) break;
    round.Draft(node, g);
    node = round.draw(node, 0);
  }
  round.lanes.Sync();
  return VerifyPath(
      round, g, [&](int i) { return round.Stored(i, s.nodes[i]); }, coins);
}

}  // namespace outrider
