// Token verification: Leviathan et al. 2023 ("Fast Inference from Transformers via Speculative
// Decoding"), Algorithm 1. Each draft token stands or falls by itself; the first to fall ends the
// round.
#pragma once

#include "common/spec/draft.h"
#include "verifier/rules/rule.h"

namespace outrider {

template <class Real, class Weight, RoundCoins Coins>
Verdict VerifyToken(const Round<Real, Weight>& round, Coins& coins) {
  int accepted = 0;
  while (accepted < round.length() &&
         coins.Accept(accepted, AcceptedMass(1, round.target(accepted), round.draft(accepted),
                                             round.token(accepted)))) {
    ++accepted;
  }
  return {accepted, coins.Next(accepted, round.Next(accepted, 1))};
}

}  // namespace outrider
