// Reductions over the threads of a block. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/device.h"

namespace outrider {

constexpr int kMaxWarps = 32;

__device__ inline int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ inline int Warp() { return static_cast<int>(threadIdx.x) / kWarpSize; }
__device__ inline int Warps() { return static_cast<int>(blockDim.x) / kWarpSize; }

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Least {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Largest {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};

// Every lane gets the same result; the order of the combinations is fixed.
template <class T, class Combine>
__device__ T WarpReduce(T value, Combine combine) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    value = combine(value, __shfl_xor_sync(kFullWarp, value, step));
  }
  return value;
}

// out[w] is warp w's result, which every thread may read afterwards. `out` [kMaxWarps] is shared
// memory.
template <class T, class Combine>
__device__ void ReduceWarps(T value, T* out, Combine combine) {
  value = WarpReduce(value, combine);
  __syncthreads();  // for threads that still read the previous contents
  if (Lane() == 0) out[Warp()] = value;
  __syncthreads();
}

// Every thread gets the same result.
template <class T, class Combine>
__device__ T BlockReduce(T value, T* warp_results, Combine combine) {
  ReduceWarps(value, warp_results, combine);
  T all = warp_results[0];
  for (int w = 1; w < Warps(); ++w) all = combine(all, warp_results[w]);
  return all;
}

// The sum over this lane and all lower lanes.
template <class T>
__device__ T WarpPrefix(T value) {
  for (int step = 1; step < kWarpSize; step *= 2) {
    const T lower = __shfl_up_sync(kFullWarp, value, static_cast<unsigned>(step));
    if (Lane() >= step) value += lower;
  }
  return value;
}

struct IndexRange {
  int begin, end;
  __device__ bool has(int i) const { return begin <= i && i < end; }
};
// Part `part` of [begin, end) when split into one part per warp, in multiples of the warp size.
__device__ inline IndexRange PartOf(IndexRange all, int part) {
  const int steps = (all.end - all.begin + kWarpSize - 1) / kWarpSize;
  const int length = (steps + Warps() - 1) / Warps() * kWarpSize;
  const int begin = min(all.begin + part * length, all.end);
  return {begin, min(begin + length, all.end)};
}

}  // namespace outrider
