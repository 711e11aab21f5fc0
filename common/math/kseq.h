// The arithmetic of choosing one of several i.i.d. candidates X_1..X_k, sampled from a sparse
// distribution q, for a target distribution p: k-SEQ (Sun et al. 2023, "SpecTr: Fast Speculative
// Decoding via Optimal Transport", Algorithm 2 and Lemma 4) and the distribution of the chosen
// candidate. Nothing allocates, nothing throws; everything is O(entries of q).
//
// Throughout, `entries` are the positive ones of q, sorted by RanksBefore, and k >= 1.
#pragma once

#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// A token of a draft distribution with the target's probability.
struct RatioEntry {
  TokenId id = -1;
  double p = 0;
  double q = 0;  // > 0
};

// Descending p / q, ties by the lower id: an order that does not depend on the samples.
OUTRIDER_HD inline bool RanksBefore(const RatioEntry& a, const RatioEntry& b) {
  const double left = a.p * b.q, right = b.p * a.q;
  return left != right ? left > right : a.id < b.id;
}

OUTRIDER_HD inline double Power(double base, int exponent) {
  double power = 1;
  for (; exponent > 0; --exponent) power *= base;
  return power;
}

// sum_{i < k} (1 - beta)^i = (1 - (1 - beta)^k) / beta, without cancellation; k at beta = 0.
OUTRIDER_HD inline double GeometricSum(double beta, int k) {
  double sum = 0;
  for (int i = 0; i < k; ++i) sum = 1 + (1 - beta) * sum;
  return sum;
}

// k-SEQ: a trial of candidate x succeeds with probability min(1, p(x) / (rho q(x))).
struct KSeq {
  double rho = 1;
  double beta = 0;  // Pr(a trial succeeds) = sum_x min(q, p / rho)
  double gain = 1;  // GeometricSum(beta, k): Pr(x is accepted) = gain * min(q(x), p(x) / rho)

  // min(q, p / rho): Pr(a candidate is x and its trial succeeds).
  OUTRIDER_HD double Mass(double p, double q) const {
    const double scaled = p / rho;
    return scaled < q ? scaled : q;
  }
  // Pr(a trial of this candidate succeeds).
  OUTRIDER_HD double Trial(double p, double q) const { return q > 0 ? Mass(p, q) / q : 0; }
};

// k-SEQ at rho*, the smallest rho without a negative residual: GeometricSum(beta(rho), k) = rho
// (Eq. 6), in [1, k]. Between two ratios p / q, beta is A + B / rho, so the sorted entries bracket
// the root, and bisection finds it on one segment. Returns the upper end of the last bracket, since
// any smaller rho would not be lossless.
OUTRIDER_HD inline KSeq SolveKSeq(const RatioEntry* entries, int n, int k) {
  double total_p = 0;
  for (int i = 0; i < n; ++i) total_p += entries[i].p;
  const auto valid = [k](double beta, double rho) { return GeometricSum(beta, k) <= rho; };

  // Goes down the ratios from the largest: [0, i) have p >= rho q. a = their q, b = the others' p.
  // Lowering rho moves entries from b to a; the root is in the first segment whose lower end is no
  // longer valid.
  double a = 0, b = total_p;
  double high = k, low = 1;
  int i = 0;
  for (; i < n; ++i) {
    const double ratio = entries[i].p / entries[i].q;
    if (ratio <= 1) break;
    if (ratio < high) {
      if (!valid(a + b / ratio, ratio)) {
        low = ratio;
        break;
      }
      high = ratio;
    }
    a += entries[i].q;
    b -= entries[i].p;
  }
  if (b < 0) b = 0;
  if (low == 1 && valid(a + b, 1)) high = 1;
  while (high > low) {
    const double middle = low + (high - low) / 2;
    if (!(middle > low && middle < high)) break;
    (valid(a + b / middle, middle) ? high : low) = middle;
  }

  KSeq kseq;
  kseq.rho = high;
  for (int e = 0; e < n; ++e) kseq.beta += kseq.Mass(entries[e].p, entries[e].q);
  kseq.gain = GeometricSum(kseq.beta, k);
  return kseq;
}

// Pr(a token of probabilities p, q is chosen) by k-SEQ if the first candidate is taken after all
// trials fail. all_but_one_fail: Power(1 - kseq.beta, k - 1).
OUTRIDER_HD inline double KSeqChoice(const KSeq& kseq, double p, double q,
                                     double all_but_one_fail) {
  const double mass = kseq.Mass(p, q);
  return mass * kseq.gain + all_but_one_fail * (q - mass);
}

// Pr(a token is chosen) if the highest-ranked of k samples is. below: q of the entries ranked after
// it.
OUTRIDER_HD inline double RatioChoice(double q, double below, int k) {
  // (below + q)^k - below^k, as a sum of products of the same sign.
  double sum = 0;
  for (int j = 0; j < k; ++j) sum = sum * below + Power(below + q, j);
  return q * sum;
}

// below[i]: q of the entries that rank after entry i.
OUTRIDER_HD inline void QBelow(const RatioEntry* entries, int n, double* below) {
  double sum = 0;
  for (int i = n - 1; i >= 0; --i) {
    below[i] = sum;
    sum += entries[i].q;
  }
}

// The mixed choice: by k-SEQ with probability `share`, else by ratio. Shares are 0, 0.1, .., 1.
inline constexpr int kShareSteps = 10;
OUTRIDER_HD inline double ShareOfStep(int step) { return static_cast<double>(step) / kShareSteps; }
OUTRIDER_HD inline double MixedChoice(double share, double by_kseq, double by_ratio) {
  return share * by_kseq + (1 - share) * by_ratio;
}

// sum_x min(p(x), r(x)), r the distribution of the mixed choice: the share of drafts from r that
// token verification would accept. by_kseq, by_ratio: KSeqChoice and RatioChoice of each entry.
OUTRIDER_HD inline double OverlapOfMix(double share, const RatioEntry* entries, int n,
                                       const double* by_kseq, const double* by_ratio) {
  double sum = 0;
  for (int i = 0; i < n; ++i) {
    const double r = MixedChoice(share, by_kseq[i], by_ratio[i]);
    sum += entries[i].p < r ? entries[i].p : r;
  }
  return sum;
}

// alpha_k, the maximum over all ways to pick one of k i.i.d. candidates or another token so that
// the result has distribution p: 1 - max over B of q(B)^k - p(B), where B runs through the sets of
// tokens with lowest p / q (SpecTr's OTM problem; the closed form is the min cut of its transport
// graph). `total_p`, p of all entries, need not be 1: tokens outside q are never drafted.
OUTRIDER_HD inline double OptimalAcceptance(const RatioEntry* entries, int n, int k) {
  double p = 0, q = 0, worst = 0;
  for (int i = n - 1; i >= 0; --i) {
    p += entries[i].p;
    q += entries[i].q;
    const double lost = Power(q, k) - p;
    if (lost > worst) worst = lost;
  }
  return 1 - worst;
}

// d of the next round of multi-round rejection (Miao et al. 2023, "SpecInfer"): after rounds
// against q the target's remainder is max(p - d q, 0) / left, and d grows by `left`, its mass.
struct RecursiveRest {
  double d = 0;
  double left = 1;  // sum_x max(p - d q, 0)

  OUTRIDER_HD double Trial(double p, double q) const {
    const double rest = p - d * q;
    if (!(rest > 0 && left > 0 && q > 0)) return 0;
    const double ratio = rest / (left * q);
    return ratio < 1 ? ratio : 1;
  }
  OUTRIDER_HD void Reject(const RatioEntry* entries, int n) {
    d += left;
    double overlap = 0;
    for (int i = 0; i < n; ++i) {
      const double taken = d * entries[i].q;
      overlap += entries[i].p < taken ? entries[i].p : taken;
    }
    left = overlap < 1 ? 1 - overlap : 0;
  }
};

}  // namespace outrider
