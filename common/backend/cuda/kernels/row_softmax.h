// The distribution of a logits row before top-k, top-p and min-p, recomputed for every requested
// token: only the row itself is read. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/kernels/block.h"

namespace outrider {

using Bits = unsigned long long;  // the type that atomicAdd takes

// Orders by value, then by descending id; 0 is below every entry above -infinity. NaN has no key.
__device__ inline Bits RankKey(float value, int id) {
  const unsigned bits = __float_as_uint(value + 0.f);  // -0 equals 0
  const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<Bits>(ordered) << 32 | ~static_cast<unsigned>(id);
}
__device__ inline int IdOf(Bits key) { return static_cast<int>(~static_cast<unsigned>(key)); }

// Calls f(row[i], i) for i = begin, begin + step, ... below end, in this order. The cost of a row
// is the latency of its memory, so several loads are in flight at once; f may write row[i].
template <class F>
__device__ void ForEntries(const float* row, int begin, int end, int step, const F& f) {
  constexpr int kAtOnce = 8;
  int i = begin;
  for (; i + (kAtOnce - 1) * step < end; i += kAtOnce * step) {
    float x[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) x[k] = row[i + k * step];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) f(x[k], i + k * step);
  }
  for (; i < end; i += step) f(row[i], i);
}
// The same for this thread's share of `range`, and of the first n.
template <class F>
__device__ void ForEntries(const float* row, IndexRange range, const F& f) {
  ForEntries(row, range.begin + static_cast<int>(threadIdx.x), range.end,
             static_cast<int>(blockDim.x), f);
}
template <class F>
__device__ void ForEntries(const float* row, int n, const F& f) {
  ForEntries(row, IndexRange{0, n}, f);
}
// Calls f(distribution(i), i) for this thread's share of a distribution, which may name the entries
// from which it is computed: distribution(i) is
// distribution.ProbabilityOf(distribution.entries()[i], i).
template <class Distribution, class F>
__device__ void ForProbabilities(const Distribution& distribution, int n, const F& f) {
  if constexpr (requires { distribution.entries(); }) {
    ForEntries(distribution.entries(), n,
               [&](float x, int i) { f(distribution.ProbabilityOf(x, i), i); });
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
      f(distribution(i), i);
    }
  }
}

__device__ inline bool IsFinite(float x) { return x > -INFINITY && x < INFINITY; }
// The factor that softmax applies to logits.
__device__ inline float InverseTemperature(float temperature) {
  return fminf(1.f / temperature, 3.402823466e+38f);
}
// The probability ratio of an entry to one that is larger by `below`; 0 for NaN, too.
__device__ inline float Exponent(float below, float inverse_temperature) {
  const float t = below * inverse_temperature;
  return t >= -103.f ? expf(t) : 0.f;
}

// The result of one pass over a row.
struct RowSummary {
  Bits best = 0;  // key of the largest entry, the lowest id on ties; 0: none is above -infinity
  float max = -INFINITY;  // that entry
  bool broken = false;    // an entry is NaN or infinite
  double sum = 0;         // of the entries' exponentials, relative to the largest
};

// Of the row's entries of `range`. A thread's sum is relative to the largest entry that it has seen
// so far, and is scaled down when it meets a larger one (Milakov and Gimelshein 2018). Without
// `sums` the sum over finite entries is omitted. Must be called by the whole block.
__device__ inline RowSummary Summarize(const float* row, IndexRange range,
                                       float inverse_temperature, bool sums, Bits* warp_results,
                                       double* warp_sums) {
  Bits best = 0, broken = 0;
  float finite_max = -INFINITY;
  double sum = 0, infinite = 0;
  ForEntries(row, range, [&](float x, int i) {
    if (!(fabsf(x) < INFINITY)) broken = 1;
    if (x > -INFINITY) best = Largest()(best, RankKey(x, i));
    if (x == INFINITY) infinite += 1;
    if (x == INFINITY || !sums) return;
    if (x > finite_max) {
      sum = sum * static_cast<double>(Exponent(finite_max - x, inverse_temperature)) + 1;
      finite_max = x;
    } else {
      sum += static_cast<double>(Exponent(x - finite_max, inverse_temperature));
    }
  });
  best = BlockReduce(best, warp_results, Largest());
  broken = BlockReduce(broken, warp_results, Largest());
  const float max = best == 0 ? -INFINITY : row[IdOf(best)];
  sum = max < INFINITY ? sum * static_cast<double>(Exponent(finite_max - max, inverse_temperature))
                       : infinite;
  return {best, max, broken != 0, BlockReduce(sum, warp_sums, Plus())};
}

// Softmax of common/math/softmax.h.
class SoftmaxRow {
 public:
  // `summary` is that of the row at this temperature, with its sum.
  __device__ SoftmaxRow(const float* logits, float temperature, const RowSummary& summary)
      : logits_(logits),
        max_(summary.max),
        inverse_(InverseTemperature(temperature)),
        scale_(static_cast<float>(1.0 / summary.sum)) {}

  __device__ bool finite() const { return IsFinite(max_); }
  __device__ float max() const { return max_; }
  // The largest probability.
  __device__ float top() const { return max_ > -INFINITY ? scale_ : 1.f; }
  __device__ float operator()(int i) const { return ProbabilityOf(logits_[i], i); }
  __device__ const float* entries() const { return logits_; }
  __device__ float ProbabilityOf(float logit, int i) const {
    if (finite()) return __fmul_rn(Exponent(logit - max_, inverse_), scale_);
    if (max_ > 0.f) return logit == max_ ? scale_ : 0.f;
    return i == 0 ? 1.f : 0.f;
  }

 private:
  const float* logits_;
  float max_, inverse_, scale_;
};

}  // namespace outrider
