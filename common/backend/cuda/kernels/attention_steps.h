// Shared by the attention kernels on tensor cores: the order of a block's steps, the queries of a
// warp and the positions that they see, and the stepwise softmax. Included by .cu only.
#pragma once

#include <climits>
#include <type_traits>

#include "common/backend/cuda/kernels/attention_parts.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/tensor_core.h"

namespace outrider {

// Calls `with` with a constant: the smallest head size with a kernel for heads of `head_dim`, which
// are zero-padded to it.
template <class With>
cudaError_t ForHeadSize(int head_dim, const With& with) {
  if (head_dim <= 64) return with(std::integral_constant<int, 64>());
  if (head_dim <= 96) return with(std::integral_constant<int, 96>());
  if (head_dim <= 128) return with(std::integral_constant<int, 128>());
  return with(std::integral_constant<int, 256>());
}
// The same for each of those sizes, up to the first error.
template <class With>
cudaError_t ForHeadSizes(const With& with) {
  for (const int head_dim : {64, 96, 128, 256}) {
    const cudaError_t error = ForHeadSize(head_dim, with);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

// Positions per step for heads of up to `dim` elements, chosen for about equal numbers of products.
constexpr int StepPositions(int dim) { return dim <= 64 ? 64 : dim <= 128 ? 32 : 16; }

// Which step of its work a block is at.
struct StepIndex {
  int chunk;
  int pass;  // below the unit's first pass: positions with the same token for all rows
  int step;
};

// The order in which a block processes its steps: chunk after chunk; in each chunk the steps of
// shared positions, then those of every pass. All threads take the same steps.
template <int kStep>
class StepOrder {
 public:
  __device__ StepOrder(const AttentionCall& call, const AttentionPlanUnit& unit)
      : positions_(call.positions),
        passes_(call.passes),
        unit_(unit),
        tail_(call.is_tree[unit.sequence] != 0 ? call.context[unit.sequence] / kStep : INT32_MAX) {}

  __device__ StepIndex First() const {
    StepIndex index = {unit_.chunk_begin, unit_.pass_begin - 1,
                       max(unit_.chunk_begin * kSteps, unit_.begin / kStep)};
    SkipToStep(&index);
    return index;
  }
  // Returns false after the last step.
  __device__ bool Advance(StepIndex* index) const {
    ++index->step;
    return SkipToStep(index);
  }
  __device__ bool IsShared(const StepIndex& index) const { return index.pass < unit_.pass_begin; }
  __device__ int PassRow(const StepIndex& index) const { return passes_[index.pass]; }
  // No query sees a position from here on.
  __device__ int End(const StepIndex& index) const {
    return IsShared(index) ? unit_.end : positions_[PassRow(index)] + 1;
  }

 private:
  static constexpr int kSteps = kAttentionChunk / kStep;

  // Moves on to the next step that exists, `index` or a later one. Returns false if there is none.
  __device__ bool SkipToStep(StepIndex* index) const {
    while (index->chunk < unit_.chunk_end) {
      const int chunk_end = (index->chunk + 1) * kSteps;
      const int end = min(chunk_end, (End(*index) - 1) / kStep + 1);
      if (index->step < (IsShared(*index) ? min(end, tail_) : end)) return true;
      if (tail_ < chunk_end && ++index->pass < unit_.pass_end) {
        index->step = max(max(tail_, index->chunk * kSteps), unit_.begin / kStep);
        continue;
      }
      index->pass = unit_.pass_begin - 1;
      index->step = ++index->chunk * kSteps;
    }
    return false;
  }

  const int32_t* const positions_;
  const int32_t* const passes_;
  const AttentionPlanUnit& unit_;
  const int tail_;  // the first step that is not the same for all rows
};

// One of the two queries of a thread: rows g and g + 8 of its warp's tile.
struct Query {
  bool is_valid = false;
  int64_t row = 0;  // of the batch
  int head = 0;
  int begin = INT32_MAX, end = 0;  // positions that it sees
  int pass = -1;                   // the pass in which it sees those after its context

  __device__ bool Sees(int position) const { return position >= begin && position < end; }
};

__device__ inline Query FindQuery(const AttentionCall& call, const AttentionPlanUnit& unit,
                                  int kv_head, int index) {
  Query q;
  if (index >= unit.queries) return q;
  const AttentionShape& shape = call.shape;
  const int group = shape.num_heads / shape.num_kv_heads;
  const int local = (unit.first_query + index) / group;
  q.is_valid = true;
  q.row = call.row_begin[unit.sequence] + local;
  q.head = kv_head * group + (unit.first_query + index) % group;
  q.end = call.positions[q.row] + 1;
  q.begin = shape.sliding_window > 0 ? max(0, q.end - shape.sliding_window) : 0;
  const int depth = q.end - 1 - call.context[unit.sequence];
  for (int pass = unit.pass_begin; pass < unit.pass_end && q.pass < 0; ++pass) {
    const int leaf = call.passes[pass];
    if (call.positions[leaf] + 1 < q.end) continue;
    if (call.paths[call.path_begin[leaf] + depth] == local) q.pass = pass;
  }
  return q;
}

// Reduces over the eight pairs of queries of a warp.
__device__ inline int MinOfTile(int value) {
#pragma unroll
  for (int step = 4; step < kWarpSize; step *= 2) {
    value = min(value, __shfl_xor_sync(kFullWarp, value, step));
  }
  return value;
}
__device__ inline int MaxOfTile(int value) { return -MinOfTile(-value); }

// Reduces over the four lanes of a query; all of them get the same bits.
__device__ inline float MaxOfQuery(float value) {
  value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
  return fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
}
__device__ inline float SumOfQuery(float value) {
  value += __shfl_xor_sync(kFullWarp, value, 1);
  return value + __shfl_xor_sync(kFullWarp, value, 2);
}

// The queries of a warp's tile, as seen by each of its threads.
struct TileQueries {
  Query query[2];
  int any_begin, any_end;  // positions that at least one query of the tile sees
  int all_begin, all_end;  // those that all of them see

  __device__ TileQueries(const AttentionCall& call, const AttentionPlanUnit& unit, int kv_head,
                         int first) {
    const int g = static_cast<int>(threadIdx.x) % kWarpSize / 4;
#pragma unroll
    for (int r = 0; r < 2; ++r) query[r] = FindQuery(call, unit, kv_head, first + g + 8 * r);
    any_begin = MinOfTile(min(query[0].begin, query[1].begin));
    any_end = MaxOfTile(max(query[0].end, query[1].end));
    all_begin = MaxOfTile(
        max(query[0].is_valid ? query[0].begin : 0, query[1].is_valid ? query[1].begin : 0));
    all_end = MinOfTile(min(query[0].is_valid ? query[0].end : INT32_MAX,
                            query[1].is_valid ? query[1].end : INT32_MAX));
  }

  // Whether any of them sees one of the kStep positions from `base` on.
  template <int kStep>
  __device__ bool SeesAny(int base, bool is_shared, int pass) const {
    if (base >= any_end || base + kStep <= any_begin) return false;
    return is_shared || __any_sync(kFullWarp, query[0].pass == pass || query[1].pass == pass) != 0;
  }

  // Masks the scores, in tiles of eight keys from `base` on, at positions that a query does not
  // see.
  template <int kTiles>
  __device__ void MaskScores(int base, bool is_shared, int pass, float (&score)[kTiles][4]) const {
    if (is_shared && base >= all_begin && base + kTiles * 8 <= all_end) return;
    const int t = static_cast<int>(threadIdx.x) % 4;
    const bool in_pass[2] = {is_shared || query[0].pass == pass,
                             is_shared || query[1].pass == pass};
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int position = base + n * 8 + 2 * t + i % 2;
        if (!in_pass[i / 2] || !query[i / 2].Sees(position)) score[n][i] = kNoScore;
      }
    }
  }

  // Loads the fragments of A, zero-padded beyond the head.
  template <class T, int kSteps>
  __device__ void LoadQueries(const AttentionCall& call, unsigned (&q)[kSteps][4]) const {
    const AttentionShape& shape = call.shape;
    const int dim = shape.head_dim, t = static_cast<int>(threadIdx.x) % 4;
    const int row_width = (shape.num_heads + 2 * shape.num_kv_heads) * dim;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const Query& own = query[i % 2];
        const int column = k * 16 + i / 2 * 8 + 2 * t;
        float2 pair = make_float2(0.f, 0.f);
        if (own.is_valid && column < dim) {
          pair = *reinterpret_cast<const float2*>(call.qkv + own.row * row_width + own.head * dim +
                                                  column);
        }
        q[k][i] = TensorCore<T>::Pack(pair.x, pair.y);
      }
    }
  }
};

// The factors of scores before their softmax, and their cap if there is one.
struct ScoreScales {
  float cap, product_scale, scale;

  // `key_scale`: of the cache's codes.
  __device__ ScoreScales(const AttentionShape& shape, float key_scale)
      : cap(shape.soft_cap * kLog2e),
        product_scale(ScoreScale(shape) * key_scale),
        scale(cap > 0 ? 1.f : product_scale) {}  // capped scores are scaled before the cap

  template <int kTiles>
  __device__ void CapScores(float (&score)[kTiles][4]) const {
    if (cap <= 0) return;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (float& s : score[n]) s = SoftCap(s * product_scale, cap);
    }
  }
};

// The softmax of a thread's two queries over the steps of a chunk.
struct ChunkSoftmax {
  float max[2] = {kNoScore, kNoScore};
  float sum[2] = {};  // over this thread's keys

  // Turns scores into weights. `factor`: scales the sums of the steps before.
  template <int kTiles>
  __device__ void ToWeights(float scale, float (&score)[kTiles][4], float (&factor)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float highest = kNoScore;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
        highest = fmaxf(highest, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
      }
      const float before = max[r];
      max[r] = fmaxf(before, __fmul_rn(MaxOfQuery(highest), scale));
      const float zero = max[r] == kNoScore ? 0.f : max[r];
      factor[r] = Exp2(before - zero);
      float own = 0.f;
#pragma unroll
      for (int n = 0; n < kTiles; ++n) {
#pragma unroll
        for (int i = 2 * r; i < 2 * r + 2; ++i) {
          score[n][i] = Exp2(fmaf(score[n][i], scale, -zero));
          own += score[n][i];
        }
      }
      sum[r] = fmaf(sum[r], factor[r], own);
    }
  }
  // Makes `sum` the sum over all keys, in every thread of a query.
  __device__ void ReduceSums() {
    sum[0] = SumOfQuery(sum[0]);
    sum[1] = SumOfQuery(sum[1]);
  }
};

// Packs the weights of 16 keys as operand A; the previous product's C has the matching layout.
template <class T>
__device__ inline void PackWeights(const float (&low)[4], const float (&high)[4],
                                   unsigned (&a)[4]) {
  using Core = TensorCore<T>;
  a[0] = Core::PackWeights(low[0], low[1]);
  a[1] = Core::PackWeights(low[2], low[3]);
  a[2] = Core::PackWeights(high[0], high[1]);
  a[3] = Core::PackWeights(high[2], high[3]);
}

// The row of the cache, within a head, of the token that a block reads at `position` of a step; -1:
// no query sees it. `path` is the pass's, null if positions are shared.
__device__ inline int SlotOf(const AttentionShape& shape, const int32_t* pages, int kv_head,
                             int context, const int32_t* path, int position) {
  const int token =
      path == nullptr || position < context ? position : context + path[position - context];
  const int32_t page = pages[token / shape.page_tokens];
  return (page * shape.num_kv_heads + kv_head) * shape.page_tokens + token % shape.page_tokens;
}

}  // namespace outrider
