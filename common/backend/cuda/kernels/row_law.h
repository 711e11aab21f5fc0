// The law of a row of logits before it is cut, worked out anew for every token that is asked for:
// the row itself is read alone. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/kernels/block.h"

namespace outrider {

using Bits = unsigned long long;  // what atomicAdd takes

// Grows with the value, then with falling ids; 0 is below every entry above -infinity. NaN has
// none.
__device__ inline Bits RankKey(float value, int id) {
  const unsigned bits = __float_as_uint(value + 0.f);  // -0 equals 0
  const unsigned ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<Bits>(ordered) << 32 | ~static_cast<unsigned>(id);
}
__device__ inline int IdOf(Bits key) { return static_cast<int>(~static_cast<unsigned>(key)); }

// Of the block: the largest entry, the lowest id on ties. 0 if there is none above -infinity.
__device__ inline Bits RowBest(const float* row, int n, Bits* of_warp) {
  Bits best = 0;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    if (row[i] > -INFINITY) best = Largest()(best, RankKey(row[i], i));
  }
  return BlockReduce(best, of_warp, Largest());
}

// Softmax of common/math/softmax.h.
class SoftmaxRow {
 public:
  // A step of the whole block.
  __device__ SoftmaxRow(const float* logits, int n, float temperature, Bits best, double* of_warp)
      : logits_(logits), max_(best == 0 ? -INFINITY : logits[IdOf(best)]) {
    inverse_ = fminf(1.f / temperature, 3.402823466e+38f);
    double sum = 0;
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
      sum += static_cast<double>(finite() ? Exponent(i) : logits[i] == max_ ? 1.f : 0.f);
    }
    sum = BlockReduce(sum, of_warp, Plus());
    scale_ = static_cast<float>(1.0 / sum);
  }

  __device__ bool finite() const { return max_ > -INFINITY && max_ < INFINITY; }
  __device__ float max() const { return max_; }
  // The largest probability.
  __device__ float top() const { return max_ > -INFINITY ? scale_ : 1.f; }
  __device__ float operator()(int i) const {
    if (finite()) return __fmul_rn(Exponent(i), scale_);
    if (max_ > 0.f) return logits_[i] == max_ ? scale_ : 0.f;
    return i == 0 ? 1.f : 0.f;
  }

 private:
  __device__ float Exponent(int i) const {
    const float t = (logits_[i] - max_) * inverse_;
    return t >= -103.f ? expf(t) : 0.f;  // 0 for NaN too
  }

  const float* logits_;
  float max_, inverse_, scale_;
};

}  // namespace outrider
