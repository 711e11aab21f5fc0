// Block verification: Sun et al. 2025 ("Block Verification Accelerates Speculative Decoding"),
// Algorithm 2. The longest accepted prefix stands, also behind shorter ones that were rejected; in
// expectation no rule that sees one draft accepts more (Theorem 2). With g = 1, temperature 0 or
// point-mass drafts it has token verification's law.
#pragma once

#include <vector>

#include "common/spec/draft.h"
#include "verifier/rules/rule.h"

namespace outrider {

template <class Real, class Weight, RoundCoins Coins>
Verdict VerifyBlock(const Round<Real, Weight>& round, Coins& coins) {
  const int g = round.length();
  // p[i] = Pr(at least i tokens stand | X_1..X_i). It recovers where the target likes a later token
  // better than the drafter does: only p = 0 is final.
  std::vector<double> p(static_cast<size_t>(g) + 1, 1.0);
  for (size_t i = 1; i < p.size(); ++i) {
    const int row = static_cast<int>(i) - 1;
    p[i] = AcceptedMass(p[i - 1], round.target(row), round.draft(row), round.token(row));
  }

  // The paper walks forward and keeps the last success. Coins are independent, so walking backward
  // to the first success has the same law and reads fewer rows.
  int accepted = g;
  for (; accepted > 0; --accepted) {
    const double mass = p[static_cast<size_t>(accepted)];
    const double h = accepted == g
                         ? mass  // a leaf: no token follows it in the draft
                         : InnerAcceptance(mass, ResidualMass(mass, round.target(accepted),
                                                              round.draft(accepted)));
    if (coins.Accept(accepted - 1, h)) break;
  }
  return {accepted, coins.Next(accepted, round.Next(accepted, p[static_cast<size_t>(accepted)]))};
}

}  // namespace outrider
