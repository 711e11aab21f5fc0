// Attention over paged keys and values, in chunks of 256 positions: the scores of a chunk (one
// thread per position), their softmax (one warp per query) and the weighted values (neighbouring
// threads along the head) are computed, then the chunk is combined with the chunks before it
// (Milakov and Gimelshein 2018; the split over blocks is that of flash-decoding).
//
// Every sum of a query runs over positions and elements in an order that depends on its own
// position alone. Multiply-adds are written explicitly, so that no compiler contracts the two code
// paths of a chunk's result (a shared key, an ancestor's key) differently.
#include "common/backend/cuda/kernels/attention.h"
#include "common/backend/cuda/kernels/attention_merge.h"
#include "common/backend/cuda/kernels/attention_mma.h"
#include "common/backend/cuda/kernels/attention_parts.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/kv.h"

namespace outrider {
namespace {

constexpr int kThreads = kAttentionChunk;
constexpr int kWarps = kThreads / kWarpSize;
constexpr int kTileQueries = 8;

// A block's data of each query of its tile.
struct Query {
  int64_t row;  // of the batch
  int head;
  int begin, end;  // positions that it sees
  const int32_t* path;
};

struct Tile {
  int context;
  int shared_end;  // positions below this are the same token for every row
  const int32_t* pages;
  int kv_head;

  __device__ int64_t Offset(const AttentionShape& shape, int token) const {
    const int32_t page = pages[token / shape.page_tokens];
    return KvOffset(page * shape.page_tokens + token % shape.page_tokens, kv_head,
                    shape.num_kv_heads, shape.page_tokens, shape.head_dim);
  }
  __device__ int64_t OffsetOf(const AttentionShape& shape, const Query& query, int position) const {
    return Offset(shape,
                  position < shared_end ? position : context + query.path[position - context]);
  }
};

// dot[q] = queries[q] . key for kCount queries, which are head_dim elements apart.
template <int kCount, class T>
__device__ inline void Dot(const float* queries, const T* key, int head_dim, int count,
                           float* dot) {
#pragma unroll
  for (int q = 0; q < kCount; ++q) dot[q] = 0.f;
#pragma unroll 4
  for (int e = 0; e < head_dim; e += 8) {
    float k[8];
    LoadEight(key + e, k);
#pragma unroll
    for (int q = 0; q < kCount; ++q) {
      if (q >= count) break;
      float x[8];
      LoadEight(queries + q * head_dim + e, x);
#pragma unroll
      for (int i = 0; i < 8; ++i) dot[q] = fmaf(x[i], k[i], dot[q]);
    }
  }
}

// Offsets in a block's shared memory, in floats unless stated otherwise.
template <int kTile>
struct SharedLayout {
  int head_dim;
  __host__ __device__ int sums() const { return kTile * head_dim; }  // after the queries
  __host__ __device__ int scores() const { return sums() + kTile * head_dim; }
  __host__ __device__ int lanes() const { return scores() + kTile * kAttentionChunk; }
  __host__ __device__ int bytes() const {
    return (lanes() + 2 * kThreads * 8) * static_cast<int>(sizeof(float));
  }
};

// One unit, by the whole block.
template <int kTile, class T>
__device__ inline void Attend(const AttentionCall& call, const AttentionPlanUnit& unit,
                              const T* keys, const T* values, float key_scale, float value_scale,
                              float* shared) {
  OUTRIDER_SHARED(Query[kTile], query);
  OUTRIDER_SHARED(int64_t[kAttentionChunk], offset);
  // Maximum and sum of each query, in this chunk and over all chunks so far.
  OUTRIDER_SHARED(float[kTile], chunk_max);
  OUTRIDER_SHARED(float[kTile], chunk_sum);
  OUTRIDER_SHARED(float[kTile], all_max);
  OUTRIDER_SHARED(float[kTile], all_sum);

  const AttentionShape& shape = call.shape;
  const int dim = shape.head_dim;
  const SharedLayout<kTile> layout{dim};
  float* const queries = shared;
  float* const sums = shared + layout.sums();
  float* const scores = shared + layout.scores();
  float* const lanes = shared + layout.lanes();

  const int thread = static_cast<int>(threadIdx.x);
  const int group = shape.num_heads / shape.num_kv_heads;
  Tile tile;
  tile.context = call.context[unit.sequence];
  tile.shared_end = call.is_tree[unit.sequence] != 0 ? tile.context : INT32_MAX;
  tile.pages = call.pages + call.page_begin[unit.sequence];
  tile.kv_head = static_cast<int>(blockIdx.y);

  if (thread < unit.queries) {
    Query q;
    q.row = call.row_begin[unit.sequence] + (unit.first_query + thread) / group;
    q.head = tile.kv_head * group + (unit.first_query + thread) % group;
    q.end = call.positions[q.row] + 1;
    q.begin = shape.sliding_window > 0 ? max(0, q.end - shape.sliding_window) : 0;
    q.path = call.is_tree[unit.sequence] != 0 ? call.paths + call.path_begin[q.row] : nullptr;
    query[thread] = q;
    all_max[thread] = kNoScore;
    all_sum[thread] = 0.f;
  }
  __syncthreads();
  int low = query[0].begin, high = query[0].end;
  for (int q = 1; q < unit.queries; ++q) {
    low = min(low, query[q].begin);
    high = max(high, query[q].end);
  }
  const int row_width = (shape.num_heads + 2 * shape.num_kv_heads) * dim;
  for (int index = thread; index < unit.queries * dim; index += kThreads) {
    const Query& q = query[index / dim];
    queries[index] = call.qkv[q.row * row_width + q.head * dim + index % dim];
    sums[index] = 0.f;
  }
  __syncthreads();
  const float scale = ScoreScale(shape) * key_scale;
  const float cap = shape.soft_cap * kLog2e;
  const bool writes_sum = unit.partial < 0 || unit.is_first != 0;

  for (int chunk = unit.chunk_begin; chunk < unit.chunk_end; ++chunk) {
    const int base = chunk * kAttentionChunk;

    // Scores: one thread per position.
    const int position = base + thread;
    float dot[kTile] = {};
    if (position >= low && position < high) {
      if (position < tile.shared_end) {
        offset[thread] = tile.Offset(shape, position);
        Dot<kTile>(queries, keys + offset[thread], dim, unit.queries, dot);
      } else {
#pragma unroll
        for (int q = 0; q < kTile; ++q) {
          if (q >= unit.queries) break;
          dot[q] = 0.f;
          if (position < query[q].begin || position >= query[q].end) continue;
          const T* key = keys + tile.OffsetOf(shape, query[q], position);
          Dot<1>(queries + q * dim, key, dim, 1, dot + q);
        }
      }
    }
#pragma unroll
    for (int q = 0; q < kTile; ++q) {
      if (q >= unit.queries) break;
      const bool seen = position >= query[q].begin && position < query[q].end;
      const float score = cap > 0 ? SoftCap(dot[q] * scale, cap) : dot[q] * scale;
      scores[q * kAttentionChunk + thread] = seen ? score : kNoScore;
    }
    __syncthreads();

    // Softmax: one warp per query.
    const int lane = thread % kWarpSize;
    for (int q = thread / kWarpSize; q < unit.queries; q += kWarps) {
      float* query_scores = scores + q * kAttentionChunk;
      float own = kNoScore;
      for (int i = lane; i < kAttentionChunk; i += kWarpSize) own = fmaxf(own, query_scores[i]);
      const float highest = WarpMax(own);
      float sum = 0.f;
      for (int i = lane; i < kAttentionChunk; i += kWarpSize) {
        const float weight = highest == kNoScore ? 0.f : exp2f(query_scores[i] - highest);
        query_scores[i] = weight;
        sum += weight;
      }
      sum = WarpSum(sum);
      if (lane == 0) {
        chunk_max[q] = highest;
        chunk_sum[q] = sum;
      }
    }
    __syncthreads();

    // Values: dim / 8 neighbouring threads process one position, eight elements each. Positions
    // with the same remainder form a run, which is summed separately.
    const int eights = dim / 8;
    const int runs = kThreads / eights;
    const int run = thread / eights, element = thread % eights * 8;
    float sum[kTile][8] = {};
    if (run < runs) {
      for (int i = run; i < kAttentionChunk; i += runs) {
        const int key = base + i;
        if (key < low || key >= high) continue;
        float v[8];
        if (key < tile.shared_end) LoadEight(values + offset[i] + element, v);
#pragma unroll
        for (int q = 0; q < kTile; ++q) {
          if (q >= unit.queries) break;
          if (key >= tile.shared_end) {
            if (key < query[q].begin || key >= query[q].end) continue;
            LoadEight(values + tile.OffsetOf(shape, query[q], key) + element, v);
          }
          const float weight = scores[q * kAttentionChunk + i];
#pragma unroll
          for (int j = 0; j < 8; ++j) sum[q][j] = fmaf(weight, v[j], sum[q][j]);
        }
      }
    }
#pragma unroll
    for (int q = 0; q < kTile; ++q) {
      if (q >= unit.queries) break;
      // The two halves alternate: between a read of a half and the next write to it there is a
      // barrier.
      float* const half = lanes + q % 2 * (kThreads * 8);
      if (run < runs) {
#pragma unroll
        for (int j = 0; j < 8; ++j) half[run * dim + element + j] = sum[q][j];
      }
      __syncthreads();
      if (thread < dim) {
        float total = 0.f;
        for (int r = 0; r < runs; ++r) total += half[r * dim + thread];
        if (!writes_sum) {
          const int64_t result = static_cast<int64_t>(chunk - unit.chunk_begin) * unit.queries + q;
          float* partial = Partial(call, unit.partial + result, tile.kv_head);
          partial[thread] = total;
          if (thread == 0) {
            partial[dim] = chunk_max[q];
            partial[dim + 1] = chunk_sum[q];
          }
        } else {
          const SoftmaxMerge m = MergeSoftmax(all_max[q], all_sum[q], chunk_max[q], chunk_sum[q]);
          sums[q * dim + thread] = m.Add(sums[q * dim + thread], total);
        }
      }
    }
    __syncthreads();
    if (thread < unit.queries) {
      const SoftmaxMerge m =
          MergeSoftmax(all_max[thread], all_sum[thread], chunk_max[thread], chunk_sum[thread]);
      all_max[thread] = m.max;
      all_sum[thread] = m.sum;
    }
    __syncthreads();
  }
  if (!writes_sum) return;
  for (int index = thread; index < unit.queries * dim; index += kThreads) {
    const int q = index / dim, i = index % dim;
    if (unit.partial < 0) {
      WriteOutput(
          call, query[q].row, query[q].head, i,
          value_scale * sums[index] / SumWithSink(shape, query[q].head, all_max[q], all_sum[q]));
      continue;
    }
    float* partial = Partial(call, unit.partial + q, tile.kv_head);
    partial[i] = sums[index];
    if (i == 0) {
      partial[dim] = all_max[q];
      partial[dim + 1] = all_sum[q];
    }
  }
}

// Blocks along y are KV heads; keys and values: one layer of the cache (kv.h).
template <int kTile, class T>
__global__ void __launch_bounds__(kThreads, kTile < kTileQueries ? 1 : 2)
    AttentionKernel(AttentionCall call, const T* keys, const T* values, float key_scale,
                    float value_scale) {
  AwaitEarlierKernels();
  OUTRIDER_DYNAMIC_SHARED(float, shared);
  ForOwnUnits(call, [&](const AttentionPlanUnit& unit) {
    Attend<kTile>(call, unit, keys, values, key_scale, value_scale, shared);
  });
}

template <int kTile, class T>
cudaError_t LaunchTiles(const AttentionCall& call, const KvLayer& kv, dim3 grid,
                        cudaStream_t stream) {
  const SharedLayout<kTile> layout{call.shape.head_dim};
  return LaunchNext(AttentionKernel<kTile, T>, grid, kThreads, static_cast<size_t>(layout.bytes()),
                    stream, call, static_cast<const T*>(kv.keys), static_cast<const T*>(kv.values),
                    kv.key_scale, kv.value_scale);
}

cudaError_t LaunchUnits(const AttentionCall& call, const KvLayer& kv, int units, int tile_queries,
                        cudaStream_t stream) {
  if (RunsOnTensorCores(call.shape, kv.type)) {
    return LaunchAttentionMma(call, kv, units, tile_queries, stream);
  }
  const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(call.shape.num_kv_heads));
  // Head sizes that are odd multiples of 8 are rare, so one kernel serves all tiles.
  switch (kv.type) {
    case KvType::kBf16: return LaunchTiles<kTileQueries, Bf16>(call, kv, grid, stream);
    case KvType::kF16: return LaunchTiles<kTileQueries, F16>(call, kv, grid, stream);
    case KvType::kFp8: return LaunchTiles<kTileQueries, Fp8>(call, kv, grid, stream);
    case KvType::kF32: break;
  }
  if (tile_queries <= 1) return LaunchTiles<1, float>(call, kv, grid, stream);
  if (tile_queries <= 2) return LaunchTiles<2, float>(call, kv, grid, stream);
  if (tile_queries <= 4) return LaunchTiles<4, float>(call, kv, grid, stream);
  return LaunchTiles<kTileQueries, float>(call, kv, grid, stream);
}

}  // namespace

int AttentionFewQueries(const AttentionShape& shape, KvType kv) {
  return RunsOnTensorCores(shape, kv) ? kMmaQueries : kTileQueries;
}

int AttentionTileQueries(const AttentionShape& shape, KvType kv) {
  return RunsOnTensorCores(shape, kv) ? kMmaQueries * kMmaWarps : kTileQueries;
}

cudaError_t PrepareAttention() {
  const cudaError_t error = PrepareAttentionMma();
  return error == cudaSuccess ? PrepareAttentionMerge() : error;
}

cudaError_t LaunchPagedAttention(const AttentionCall& call, const KvLayer& kv, int units,
                                 int merges, int tile_queries, cudaStream_t stream) {
  const cudaError_t error = LaunchUnits(call, kv, units, tile_queries, stream);
  if (error != cudaSuccess || merges == 0) return error;
  return LaunchAttentionMerge(call, kv.value_scale, merges, tile_queries, stream);
}

}  // namespace outrider
