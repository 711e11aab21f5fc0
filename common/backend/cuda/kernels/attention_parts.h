// Shared by the attention kernels and their merge: how results of chunks are combined, and where
// results and output are. Maxima are of scores times log2 e. Included by .cu only.
#pragma once

#include "common/backend/cuda/kernels/attention.h"
#include "common/backend/cuda/kernels/device.h"

namespace outrider {

constexpr float kNoScore = -INFINITY;  // the maximum of no scores

// Indexes into AttentionCall::counts.
constexpr int kUnits = 0, kMerges = 1;
// The number of units or merges, `all` if the call does not say. Blocks take them in turns.
__device__ inline int CountOf(const AttentionCall& call, int what, int all) {
  return call.counts != nullptr ? call.counts[what] : all;
}

// Calls attend(unit) for each unit of this block, by the whole block.
template <class Attend>
__device__ inline void ForOwnUnits(const AttentionCall& call, Attend attend) {
  // The number of units is read again each time, so that no register has to keep it.
  const int blocks = static_cast<int>(gridDim.x);
  for (int index = static_cast<int>(blockIdx.x); index < CountOf(call, kUnits, blocks);
       index += blocks) {
    attend(call.units[index]);
    __syncthreads();  // the next unit overwrites the shared memory
  }
}

constexpr float kLog2e = 1.44269504f;

// A key has weight 2^(q.k times this), if scores have no soft cap.
__device__ inline float ScoreScale(const AttentionShape& shape) {
  return kLog2e / sqrtf(shape.ScoreScalar());
}
// The soft cap of `score`; both are scaled by log2 e.
__device__ inline float SoftCap(float score, float cap) { return cap * tanhf(score / cap); }

// Combines the sums so far with a chunk's sums. A chunk without a visible position changes no bit.
struct SoftmaxMerge {
  float max, sum;       // of both
  float before, chunk;  // factors of the sums so far and of the chunk's

  __device__ float Add(float sum_before, float chunk_sum) const {
    return fmaf(sum_before, before, __fmul_rn(chunk_sum, chunk));
  }
};

__device__ inline SoftmaxMerge MergeSoftmax(float max, float sum, float chunk_max,
                                            float chunk_sum) {
  SoftmaxMerge m;
  m.max = fmaxf(max, chunk_max);
  m.before = max == kNoScore ? 0.f : exp2f(max - m.max);
  m.chunk = chunk_max == kNoScore ? 0.f : exp2f(chunk_max - m.max);
  m.sum = m.Add(sum, chunk_sum);
  return m;
}

// The sum of a query's weights including its head's sink. `max` is the maximum that the weights are
// relative to.
__device__ inline float SumWithSink(const AttentionShape& shape, int head, float max, float sum) {
  return shape.sinks == nullptr ? sum : sum + exp2f(shape.sinks[head] * kLog2e - max);
}

// The values of one result: head_dim sums, then maximum and sum of weights.
__device__ inline float* Partial(const AttentionCall& call, int64_t partial, int kv_head) {
  const AttentionShape& shape = call.shape;
  return call.partials + (partial * shape.num_kv_heads + kv_head) * (shape.head_dim + 2);
}

// Column `i` of head `head` in a row of the output.
__device__ inline int64_t OutputColumn(const AttentionShape& shape, int head, int i) {
  return static_cast<int64_t>(head) * shape.head_dim + i;
}
__device__ inline int64_t OutputWidth(const AttentionShape& shape) {
  return static_cast<int64_t>(shape.num_heads) * shape.head_dim;
}

__device__ inline void WriteOutput(const AttentionCall& call, int64_t row, int head, int i,
                                   float value) {
  const int64_t column = OutputColumn(call.shape, head, i);
  if (call.out != nullptr) call.out[row * OutputWidth(call.shape) + column] = value;
  if (call.rounded.data != nullptr) {
    StoreRounded(call.rounded, row * call.rounded.stride + column, value);
  }
}

// Writes columns `i` and `i` + 1, `i` even.
__device__ inline void WriteOutputPair(const AttentionCall& call, int64_t row, int head, int i,
                                       float low, float high) {
  const int64_t column = OutputColumn(call.shape, head, i);
  if (call.out != nullptr) {
    *reinterpret_cast<float2*>(call.out + row * OutputWidth(call.shape) + column) =
        make_float2(low, high);
  }
  if (call.rounded.data != nullptr) {
    *reinterpret_cast<unsigned*>(call.rounded.data + row * call.rounded.stride + column) =
        Round(low, call.rounded.dtype) | static_cast<unsigned>(Round(high, call.rounded.dtype))
                                             << 16;
  }
}

}  // namespace outrider
