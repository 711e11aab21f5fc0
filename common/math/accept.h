// Arithmetic of verification on one row: a dense target distribution P [vocab] against a sparse
// draft distribution Q. The names p, S and h are those of Sun et al. 2025, "Block Verification
// Accelerates Speculative Decoding", Algorithms 1 and 2. Nothing allocates, nothing throws.
//
// Precision: rows are Real (float on the hot path), scalars and sums are double. A float row sums
// to 1 only to about 1e-7, and S inherits that error in full where P and Q nearly agree. That is
// harmless: Pr(exactly i draft tokens are accepted | the first i) = S_i, so an absolute error of S
// changes the output distribution by no more than itself.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// A sparse distribution: ids[i] has probability weights[i] * unit, every other token 0. Ids are
// distinct.
template <class Weight>
struct SparseRow {
  const TokenId* ids = nullptr;
  const Weight* weights = nullptr;
  int size = 0;
  double unit = 1;

  OUTRIDER_HD double Probability(int i) const { return static_cast<double>(weights[i]) * unit; }
  OUTRIDER_HD double Of(TokenId id) const {
    for (int i = 0; i < size; ++i) {
      if (ids[i] == id) return Probability(i);
    }
    return 0;
  }
};

// min(1, p * P(x) / Q(x)) of a draft token x, given P(x) and Q(x): with p = 1 token verification's
// acceptance probability (Eq. 1), with p = p_{i-1} block verification's p_i (Algorithm 2, line 4).
// 0 for a token that Q cannot have produced: then Q is not the distribution that was sampled, and
// rejecting keeps the output a sample of the target.
OUTRIDER_HD inline double AcceptedMass(double p, double target, double draft) {
  if (!(draft > 0)) return 0;
  const double mass = p * target / draft;
  return mass < 1 ? mass : 1;
}

// min(1, p / q) of one token in steps of 1/255, as sent to the drafter's head in verdicts.
OUTRIDER_HD inline uint8_t AcceptanceByte(double p, double q) {
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative; host and device alike
  return static_cast<uint8_t>(255 * (p < q ? p / q : 1.0) + 0.5);
}

// The overlap of pP and Q over every `step`-th entry from `first` on.
template <class Real, class Weight>
OUTRIDER_HD double OverlapMass(double p, const Real* target, const SparseRow<Weight>& draft,
                               int first, int step) {
  double overlap = 0;
  for (int i = first; i < draft.size; i += step) {
    const double a = p * static_cast<double>(target[draft.ids[i]]);
    const double b = draft.Probability(i);
    overlap += a < b ? a : b;
  }
  return overlap;
}

// S = sum_x max(p P(x) - Q(x), 0), in O(|supp Q|): p minus the overlap of pP and Q, as P sums to 1.
OUTRIDER_HD inline double ResidualMass(double p, double overlap) {
  return p > overlap ? p - overlap : 0;
}

// h = S / (S + 1 - p), Eq. (5) for an inner position. At p = 1 it is 1: by the formula if S > 0, by
// definition if S = 0, where P = Q and every later position is accepted anyway.
OUTRIDER_HD inline double InnerAcceptance(double p, double residual_mass) {
  if (p >= 1) return 1;
  return residual_mass / (residual_mass + 1 - p);
}

// The distribution proportional to max(scale * P(x) - Q(x), 0), or to P itself if the draft is
// empty. It is processed in tiles of the vocabulary, which needs O(|supp Q|) work per tile instead
// of a dense Q.
template <class Real>
struct ResidualRow {
  static constexpr int kTile = 256;
  static constexpr double kEmpty = 1e-200;  // a smaller total is rounding error

  double scale = 1;
  const Real* target = nullptr;
  int vocab = 0;
  SparseRow<double> draft;

  // Weights of tokens [begin, begin + n), n <= kTile; returns their sum.
  OUTRIDER_HD double Tile(int begin, int n, double* weights) const {
    for (int i = 0; i < n; ++i) weights[i] = scale * static_cast<double>(target[begin + i]);
    for (int i = 0; i < draft.size; ++i) {
      const unsigned at = static_cast<unsigned>(draft.ids[i] - begin);
      if (at >= static_cast<unsigned>(n)) continue;
      const double rest = weights[at] - draft.Probability(i);
      weights[at] = rest > 0 ? rest : 0;
    }
    double lane[4] = {0, 0, 0, 0};  // four chains, because the latency of additions is the limit
    int i = 0;
    for (; i + 4 <= n; i += 4) {
      for (int k = 0; k < 4; ++k) lane[k] += weights[i + k];
    }
    for (; i < n; ++i) lane[0] += weights[i];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
  }

  OUTRIDER_HD double Total() const {
    double weights[kTile];
    double total = 0;
    for (int begin = 0; begin < vocab; begin += kTile) total += Tile(begin, Width(begin), weights);
    return total;
  }

  // The token at `coin`, a uniform random number in [0, 1), of the cumulative weights; never one of
  // weight 0. An empty residual (P = Q up to rounding) samples from P, which is the same
  // distribution. -1 if P is all zero.
  OUTRIDER_HD TokenId Draw(double coin) const {
    const double total = Total();
    if (!(total > kEmpty)) return draft.size == 0 ? -1 : Plain().Draw(coin);
    const double goal = coin * total;  // < total, and tiles add up to it as in Total()
    double weights[kTile];
    double before = 0;
    TokenId drawn = -1;
    for (int begin = 0; begin < vocab; begin += kTile) {
      const int n = Width(begin);
      const double sum = Tile(begin, n, weights);
      if (before + sum > goal) {
        // Summed one by one, the weights may be slightly less; then the tile's last one is taken.
        for (int i = 0; i < n && before <= goal; ++i) {
          if (weights[i] > 0) drawn = begin + i;
          before += weights[i];
        }
        break;
      }
      before += sum;
    }
    return drawn;
  }

  // The distribution that Draw samples from: probabilities of all `vocab` tokens.
  OUTRIDER_HD void Distribution(double* out) const {
    const double total = Total();
    if (!(total > kEmpty) && draft.size > 0) return Plain().Distribution(out);
    for (int begin = 0; begin < vocab; begin += kTile) Tile(begin, Width(begin), out + begin);
    for (int x = 0; x < vocab; ++x) out[x] /= total;
  }

 private:
  OUTRIDER_HD ResidualRow Plain() const { return {1, target, vocab, {}}; }
  OUTRIDER_HD int Width(int begin) const { return vocab - begin < kTile ? vocab - begin : kTile; }
};

}  // namespace outrider
