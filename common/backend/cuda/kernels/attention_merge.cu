// The results of a query are added up one after another, as by a block that has all of its chunks
// (MergeSoftmax in attention_parts.h). Only the multiply-adds are sequential. The maximum over all
// results so far is a prefix maximum, so the factors of 32 results are computed in parallel, one
// per lane, and the values of the next results are loaded while these are added up.
#include "common/backend/cuda/kernels/attention_merge.h"
#include "common/backend/cuda/kernels/attention_parts.h"
#include "common/backend/cuda/kernels/device.h"

namespace outrider {
namespace {

constexpr int kAhead = 16;  // results whose values are in flight

// The sum of a result, one per lane, and the factors of the results so far and of this one when
// they are combined.
struct Factors {
  float sum = 0.f;
  float before = 1.f, chunk = 0.f;
};

// The factors of result `lane` of these. `max` is the maximum over all earlier results, and is
// updated with these.
__device__ inline Factors FactorsOf(float result_max, float sum, float* max) {
  float highest = result_max;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int step = 1; step < kWarpSize; step *= 2) {
    const float lower = __shfl_up_sync(kFullWarp, highest, static_cast<unsigned>(step));
    if (lane >= step) highest = fmaxf(highest, lower);
  }
  highest = fmaxf(*max, highest);
  float before = __shfl_up_sync(kFullWarp, highest, 1);
  if (lane == 0) before = *max;
  const SoftmaxMerge m = MergeSoftmax(before, 0.f, result_max, sum);
  *max = __shfl_sync(kFullWarp, highest, kWarpSize - 1);
  return {sum, m.before, m.chunk};
}

// Query `q` of a merge, by the whole block: one thread per column of the head.
__device__ inline void MergeQuery(const AttentionCall& call, const AttentionMerge& merge, int q,
                                  float value_scale) {
  const AttentionShape& shape = call.shape;
  const int dim = shape.head_dim;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int column = static_cast<int>(threadIdx.x);
  const int lane = column % kWarpSize;
  const float* const first = Partial(call, merge.partial + q, kv_head);
  const int64_t stride = Partial(call, merge.partial + q + merge.queries, kv_head) - first;
  const auto load = [&](int result, int index, float otherwise) {
    return result < merge.results ? first[result * stride + index] : otherwise;
  };
  const int own = min(column, dim - 1);  // a warp's last lanes may have no column

  float next[kAhead];
#pragma unroll
  for (int i = 0; i < kAhead; ++i) next[i] = load(i, own, 0.f);
  float max = kNoScore, sum = 0.f, value = 0.f;
  for (int begin = 0; begin < merge.results; begin += kWarpSize) {
    const Factors factors =
        FactorsOf(load(begin + lane, dim, kNoScore), load(begin + lane, dim + 1, 0.f), &max);
#pragma unroll
    for (int half = 0; half < kWarpSize; half += kAhead) {
      float values[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        values[i] = next[i];
        next[i] = load(begin + half + kAhead + i, own, 0.f);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
        if (begin + half + i >= merge.results) break;
        const SoftmaxMerge m = {.max = 0.f,
                                .sum = 0.f,
                                .before = __shfl_sync(kFullWarp, factors.before, half + i),
                                .chunk = __shfl_sync(kFullWarp, factors.chunk, half + i)};
        sum = m.Add(sum, __shfl_sync(kFullWarp, factors.sum, half + i));
        value = m.Add(value, values[i]);
      }
    }
  }
  if (column >= dim) return;
  const int group = shape.num_heads / shape.num_kv_heads;
  const int64_t row = call.row_begin[merge.sequence] + (merge.first_query + q) / group;
  const int head = kv_head * group + (merge.first_query + q) % group;
  WriteOutput(call, row, head, column, value_scale * value / SumWithSink(shape, head, max, sum));
}

// Blocks along y are KV heads; those along x take the queries of all merges in turns.
__global__ void __launch_bounds__(256)
    MergeKernel(AttentionCall call, int merges, int tile_queries, float value_scale) {
  AwaitEarlierKernels();
  const int queries = CountOf(call, kMerges, merges) * tile_queries;
  for (int index = static_cast<int>(blockIdx.x); index < queries;
       index += static_cast<int>(gridDim.x)) {
    const AttentionMerge merge = call.merges[index / tile_queries];
    const int q = index % tile_queries;
    if (q < merge.queries) MergeQuery(call, merge, q, value_scale);
  }
}

}  // namespace

cudaError_t PrepareAttentionMerge() {
  return cudaFuncSetAttribute(reinterpret_cast<const void*>(MergeKernel),
                              cudaFuncAttributeMaxDynamicSharedMemorySize, 0);
}

cudaError_t LaunchAttentionMerge(const AttentionCall& call, float value_scale, int merges,
                                 int tile_queries, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(merges) * static_cast<unsigned>(tile_queries),
                  static_cast<unsigned>(call.shape.num_kv_heads));
  const unsigned threads = Blocks(call.shape.head_dim, kWarpSize) * kWarpSize;
  return LaunchNext(MergeKernel, grid, threads, 0, stream, call, merges, tile_queries, value_scale);
}

}  // namespace outrider
