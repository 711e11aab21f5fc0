// Upper bounds of all verification rules, by linear programming (GLPK): exact optima for
// vocabularies of a few tokens.
#pragma once

#include <span>
#include <vector>

#include "common/rules/enumerate.h"

namespace outrider::testing {

// The optimal transport plan of SpecTr (Sun et al. 2023, Eq. 4) from k i.i.d. draws of `draft` to
// one token of `target`: the most likely that the token is one of the draws.
struct TransportPlan {
  double acceptance = 0;
  // mass[tuple][y] = Pr(draws, token). The tuple's draws are its digits to the base of the
  // vocabulary's size, the first one leading.
  std::vector<std::vector<double>> mass;
};
TransportPlan SolveTransport(std::span<const double> target, std::span<const double> draft, int k);

// The most draft tokens that any rule of one round, lossless for any continuation, accepts in the
// mean over k i.i.d. sequences of `length` tokens. Variables: Pr(the draws are D, the accepted
// prefix is u); what reaches u must leave no negative residual behind it.
double MostAccepted(const EnumeratedPair& pair, int k, int length);

}  // namespace outrider::testing
