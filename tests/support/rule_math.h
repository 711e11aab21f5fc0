// The rules' arithmetic on whole rows; the rules compute it entry by entry.
#pragma once

#include "common/math/accept.h"
#include "common/math/kseq.h"

namespace outrider::testing {

template <class Real, class Weight>
double AcceptedMass(double p, const Real* target, const SparseRow<Weight>& draft, TokenId token) {
  return outrider::AcceptedMass(p, static_cast<double>(target[token]), draft.Of(token));
}

// S = sum_x max(p P(x) - Q(x), 0).
template <class Real, class Weight>
double ResidualMass(double p, const Real* target, const SparseRow<Weight>& draft) {
  return outrider::ResidualMass(p, OverlapMass(p, target, draft, 0, 1));
}

// out[i]: Pr(entry i is chosen) by k-SEQ, and by ratio.
inline void KSeqChoiceDistribution(const KSeq& kseq, const RatioEntry* entries, int n, int k,
                                   double* out) {
  const double all_but_one_fail = Power(1 - kseq.beta, k - 1);
  for (int i = 0; i < n; ++i) {
    out[i] = KSeqChoice(kseq, entries[i].p, entries[i].q, all_but_one_fail);
  }
}
inline void RatioChoiceDistribution(const RatioEntry* entries, int n, int k, double* out) {
  QBelow(entries, n, out);
  for (int i = 0; i < n; ++i) out[i] = RatioChoice(entries[i].q, out[i], k);
}

// sum_x min(p(x), distribution(x)), where `distribution` is a distribution.
inline double Overlap(const RatioEntry* entries, int n, const double* distribution) {
  return OverlapOfMix(1, entries, n, distribution, distribution);
}

}  // namespace outrider::testing
