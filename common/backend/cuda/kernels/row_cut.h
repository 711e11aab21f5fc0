// Where top-k, top-p and min-p cut a distribution, without sorting it: a radix search over the bits
// of the entries, which have the order of the entries, ten bits at a time. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_softmax.h"

namespace outrider {

constexpr int kCutBits = 10;
constexpr int kCutBins = 1 << kCutBits;

struct CutShared {
  // Sums of 64 bits, in halves: a device adds 32 bits of shared memory in one instruction, but 64
  // bits in a compare-and-swap loop, which many threads on few bins make spin.
  unsigned low[kCutBins], high[kCutBins];
  Bits above;  // weight of the bins above the chosen one
  int bin;     // -1: all bins together are below the goal
  int equals[kMaxWarps];
  int id;
};

// The tokens that are kept: those above `value` and, at `value`, those up to `id`, but none below
// `floor`.
struct RowCut {
  float value, floor;
  int id;
  __device__ bool Keeps(float p, int i) const {
    return (p > value || (p == value && i <= id)) && p >= floor;
  }
};
__device__ inline RowCut KeepAll() { return {0.f, 0.f, INT32_MAX}; }

// Weights as integers, so that sums do not depend on their order.
struct CountOne {
  __device__ Bits operator()(float) const { return 1; }
};
struct Mass {
  static constexpr double kOne = 4611686018427387904.;  // 2^62; a float above 2^-39 is exact
  __device__ Bits operator()(float p) const {
    return static_cast<Bits>(static_cast<double>(p) * kOne);
  }
};

__device__ inline void AddToBin(CutShared& shared, unsigned bin, Bits weight) {
  const auto low = static_cast<unsigned>(weight);
  const unsigned before = atomicAdd(&shared.low[bin], low);
  const unsigned high = static_cast<unsigned>(weight >> 32) + (before + low < low ? 1 : 0);
  if (high != 0) atomicAdd(&shared.high[bin], high);
}
__device__ inline Bits WeightOfBin(const CutShared& shared, int bin) {
  return static_cast<Bits>(shared.high[bin]) << 32 | shared.low[bin];
}

// Called by warp 0: finds the bin, from the highest down, at which `above` plus the bins reach
// `goal`.
__device__ inline void FindBin(CutShared& shared, Bits above, Bits goal) {
  Bits sum = 0;
  const int top = kCutBins - 1 - Lane() * kWarpSize;  // highest bin of this lane
  for (int j = 0; j < kWarpSize; ++j) sum += WeightOfBin(shared, top - j);
  Bits reached = above + WarpPrefix(sum);
  unsigned who = __ballot_sync(kFullWarp, reached >= goal);
  if (who == 0) {
    if (Lane() == 0) shared.bin = -1;
    return;
  }
  const int group = __ffs(static_cast<int>(who)) - 1;
  above = __shfl_sync(kFullWarp, reached - sum, group);
  const int bin = kCutBins - 1 - group * kWarpSize - Lane();
  sum = WeightOfBin(shared, bin);
  reached = above + WarpPrefix(sum);
  who = __ballot_sync(kFullWarp, reached >= goal);
  if (Lane() == __ffs(static_cast<int>(who)) - 1) {
    shared.bin = bin;
    shared.above = reached - sum;
  }
}

// The id of the `nth` (from 1) token with the value `value`; at least `nth` exist.
template <class Distribution>
__device__ int FindEqual(const Distribution& distribution, const RowCut& before, int n, float value,
                         int nth, CutShared& shared) {
  const IndexRange mine = PartOf({0, n}, Warp());
  int count = 0;
  for (int i = mine.begin + Lane(); i < mine.end; i += kWarpSize) {
    const float p = distribution(i);
    count += p == value && before.Keeps(p, i);
  }
  ReduceWarps(count, shared.equals, Plus());
  int left = nth;
  int part = 0;
  while (part + 1 < Warps() && shared.equals[part] < left) left -= shared.equals[part++];
  if (Warp() == part) {
    for (int begin = mine.begin; begin < mine.end; begin += kWarpSize) {
      const int i = begin + Lane();
      const float p = i < mine.end ? distribution(i) : -1.f;
      unsigned equal = __ballot_sync(kFullWarp, p == value && before.Keeps(p, i));
      if (__popc(equal) < left) {
        left -= __popc(equal);
        continue;
      }
      while (--left > 0) equal &= equal - 1;
      if (Lane() == 0) shared.id = begin + __ffs(static_cast<int>(equal)) - 1;
      break;
    }
  }
  __syncthreads();
  return shared.id;
}

// The last token of the shortest prefix of what `before` keeps, in descending order (ties by
// ascending id), whose weights reach `goal` > 0; `before` if all of them do not. Must be called by
// the whole block.
template <class Distribution, class Weight>
__device__ RowCut ShortestPrefix(const Distribution& distribution, const RowCut& before, int n,
                                 Weight weight, Bits goal, CutShared& shared) {
  unsigned prefix = 0;  // the bits found so far; sign and the highest exponent bit are 0
  Bits above = 0;
  for (int shift = 2 * kCutBits; shift >= 0; shift -= kCutBits) {
    __syncthreads();
    for (int b = static_cast<int>(threadIdx.x); b < kCutBins; b += static_cast<int>(blockDim.x)) {
      shared.low[b] = shared.high[b] = 0;
    }
    __syncthreads();
    ForProbabilities(distribution, n, [&](float p, int i) {
      const unsigned bits = __float_as_uint(p);
      if (!(p > 0.f) || !before.Keeps(p, i) || bits >> shift >> kCutBits != prefix) return;
      AddToBin(shared, bits >> shift & (kCutBins - 1), weight(p));
    });
    __syncthreads();
    if (Warp() == 0) FindBin(shared, above, goal);
    __syncthreads();
    if (shared.bin < 0) return before;
    prefix = prefix << kCutBits | static_cast<unsigned>(shared.bin);
    above = shared.above;
  }
  RowCut cut = before;
  cut.value = __uint_as_float(prefix);
  cut.id = INT32_MAX;
  const Bits each = weight(cut.value);
  const Bits wanted = (goal - above + each - 1) / each;
  const Bits equal = WeightOfBin(shared, shared.bin) / each;
  if (wanted < equal) {
    cut.id = FindEqual(distribution, before, n, cut.value, static_cast<int>(wanted), shared);
  } else if (before.value == cut.value) {
    cut.id = before.id;
  }
  return cut;
}

// The probability that `cut` keeps. Must be called by the whole block.
template <class Distribution>
__device__ double KeptMass(const Distribution& distribution, const RowCut& cut, int n,
                           double* warp_sums) {
  double sum = 0;
  ForProbabilities(distribution, n, [&](float p, int i) {
    if (cut.Keeps(p, i)) sum += static_cast<double>(p);
  });
  return BlockReduce(sum, warp_sums, Plus());
}

}  // namespace outrider
