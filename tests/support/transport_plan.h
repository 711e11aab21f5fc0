// Upper bounds for all verification rules, by linear programming (GLPK): exact optima for
// vocabularies of a few tokens.
#pragma once

#include <span>
#include <vector>

#include "common/rules/enumerate.h"

namespace outrider::testing {

// The optimal transport plan of SpecTr (Sun et al. 2023, Eq. 4) from k i.i.d. samples of `draft` to
// one token of `target`: it maximises the probability that the token is one of the samples.
struct TransportPlan {
  double acceptance = 0;
  // mass[tuple][y] = Pr(draft tokens, token). The tuple's draft tokens are its digits in base
  // vocab, the first one most significant.
  std::vector<std::vector<double>> mass;
};
TransportPlan SolveTransport(std::span<const double> target, std::span<const double> draft, int k);

// The largest mean number of accepted draft tokens among all rules of one round over k i.i.d.
// sequences of `length` tokens that are lossless for any continuation. Variables: Pr(the draft is
// D, the accepted prefix is u); what reaches u must not leave a negative residual.
double MostAccepted(const EnumeratedPair& pair, int k, int length);

}  // namespace outrider::testing
