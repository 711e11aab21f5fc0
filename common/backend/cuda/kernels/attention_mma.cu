// Attention on tensor cores (the tiles and the softmax by steps are those of Dao 2023). A block's
// warps take 16 queries each and share the keys and values, which come into shared memory step by
// step while the step before is worked on. A step is some keys at a multiple of their number,
// whatever the batch, so all that a query adds up stands at places that its own positions name.
//
// What a query does not see of a step has weight 0 and changes no bit of its sums: not the rest of
// a step, not a step of which it sees nothing (its maximum stays, so the sums' factor is 1). So it
// does not matter which queries share a tile. In a tree, positions from its context on are another
// token for each path: there, steps are taken once for every pass, a path that some of the tile's
// rows stand on, and the other rows see nothing of them.
#include "common/backend/cuda/kernels/attention_mma.h"
#include "common/backend/cuda/kernels/attention_parts.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/kv.h"
#include "common/backend/cuda/kernels/tensor_core.h"

namespace outrider {
namespace {

// Positions of a step, for heads of up to kDim elements: about as many products for each.
constexpr int StepPositions(int dim) { return dim <= 64 ? 64 : dim <= 128 ? 32 : 16; }

// Shared memory: two steps' keys and values, then each warp's sums of the chunks so far.
template <int kDim>
struct Layout {
  static constexpr int kStep = StepPositions(kDim);
  // An odd number of 16 bytes: eight rows of a matrix are in banks of their own.
  static constexpr int kStride = kDim + 8;
  static constexpr int kMatrix = kStep * kStride;
  static constexpr int kBytesOfSteps = 4 * kMatrix * static_cast<int>(sizeof(uint16_t));
  static constexpr int kBytesOfSums = kMmaQueries * kDim * static_cast<int>(sizeof(float));
  static constexpr int Bytes(int warps) { return kBytesOfSteps + warps * kBytesOfSums; }
  // What a block may have on any device.
  static_assert(Bytes(kMmaWarps) <= 99 << 10);
  static_assert(kAttentionChunk % kStep == 0);
};

// Where a block is.
struct Place {
  int chunk;
  int pass;  // below the unit's first: positions that are the same tokens for all rows
  int step;
};

// The order in which a block takes its steps: chunk after chunk; in each the steps of shared
// positions, then those of every pass. All threads walk alike.
template <int kStep>
class Walk {
 public:
  __device__ Walk(const AttentionCall& call, const AttentionTile& unit)
      : positions_(call.positions),
        passes_(call.passes),
        unit_(unit),
        tail_(call.is_tree[unit.sequence] != 0 ? call.context[unit.sequence] / kStep : INT32_MAX) {}

  __device__ Place First() const {
    Place at = {unit_.chunk_begin, unit_.pass_begin - 1,
                max(unit_.chunk_begin * kSteps, unit_.begin / kStep)};
    Settle(&at);
    return at;
  }
  // False: there is none.
  __device__ bool Advance(Place* at) const {
    ++at->step;
    return Settle(at);
  }
  __device__ bool IsShared(const Place& at) const { return at.pass < unit_.pass_begin; }
  __device__ int PassRow(const Place& at) const { return passes_[at.pass]; }
  // Positions from here on are nobody's.
  __device__ int End(const Place& at) const {
    return IsShared(at) ? unit_.end : positions_[PassRow(at)] + 1;
  }

 private:
  static constexpr int kSteps = kAttentionChunk / kStep;

  // To the first step from here on that is there.
  __device__ bool Settle(Place* at) const {
    while (at->chunk < unit_.chunk_end) {
      const int chunk_end = (at->chunk + 1) * kSteps;
      const int end = min(chunk_end, (End(*at) - 1) / kStep + 1);
      if (at->step < (IsShared(*at) ? min(end, tail_) : end)) return true;
      if (tail_ < chunk_end && ++at->pass < unit_.pass_end) {
        at->step = max(max(tail_, at->chunk * kSteps), unit_.begin / kStep);
        continue;
      }
      at->pass = unit_.pass_begin - 1;
      at->step = ++at->chunk * kSteps;
    }
    return false;
  }

  const int32_t* const positions_;
  const int32_t* const passes_;
  const AttentionTile& unit_;
  const int tail_;  // the first step that is not the same for all rows
};

// One of the two queries of a thread: rows g and g + 8 of its warp's tile.
struct Query {
  bool is_there = false;
  int64_t row = 0;  // of the batch
  int head = 0;
  int begin = INT32_MAX, end = 0;  // positions that it sees
  int pass = -1;                   // in which it sees those behind its context

  __device__ bool Sees(int position) const { return position >= begin && position < end; }
};

__device__ inline Query FindQuery(const AttentionCall& call, const AttentionTile& unit, int kv_head,
                                  int index) {
  Query q;
  if (index >= unit.queries) return q;
  const AttentionShape& shape = call.shape;
  const int group = shape.num_heads / shape.num_kv_heads;
  const int local = (unit.first_query + index) / group;
  q.is_there = true;
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

// Over the eight pairs of queries of a warp.
__device__ inline int MinOfTile(int value) {
#pragma unroll
  for (int step = 4; step < kWarpSize; step *= 2) {
    value = min(value, __shfl_xor_sync(kFullWarp, value, step));
  }
  return value;
}
__device__ inline int MaxOfTile(int value) { return -MinOfTile(-value); }

// Over the four lanes of a query: the same bits in all of them.
__device__ inline float MaxOfQuery(float value) {
  value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, 1));
  return fmaxf(value, __shfl_xor_sync(kFullWarp, value, 2));
}
__device__ inline float SumOfQuery(float value) {
  value += __shfl_xor_sync(kFullWarp, value, 1);
  return value + __shfl_xor_sync(kFullWarp, value, 2);
}

template <int kDim, class T>
__global__ void __launch_bounds__(kMmaWarps* kWarpSize)
    AttentionMmaKernel(AttentionCall call, const T* keys, const T* values) {
  using Core = TensorCore<T>;
  using Parts = Layout<kDim>;
  constexpr int kStep = Parts::kStep, kStride = Parts::kStride;
  constexpr int kColumns = kDim / 8;  // tiles of C, and 16-byte pieces of a row
  if (IsIdle(call, kUnits)) return;
  // All lanes copy as often: shuffles name each other's positions.
  static_assert(kStep / kMmaWarps * kColumns % kWarpSize == 0);
  OUTRIDER_DYNAMIC_SHARED(unsigned char, shared);
  T* const steps = reinterpret_cast<T*>(shared);

  const AttentionShape& shape = call.shape;
  const int dim = shape.head_dim;
  const AttentionTile unit = call.units[blockIdx.x];
  const int kv_head = static_cast<int>(blockIdx.y);
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int g = lane / 4, t = lane % 4;
  float4* const sums =
      reinterpret_cast<float4*>(shared + Parts::kBytesOfSteps + warp * Parts::kBytesOfSums) + lane;

  Query query[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    query[r] = FindQuery(call, unit, kv_head, warp * kMmaQueries + g + 8 * r);
  }
  // Of the warp: positions that any query sees, and those that all see.
  const int any_begin = MinOfTile(min(query[0].begin, query[1].begin));
  const int any_end = MaxOfTile(max(query[0].end, query[1].end));
  const int all_begin = MaxOfTile(max(query[0].is_there ? query[0].begin : 0,  //
                                      query[1].is_there ? query[1].begin : 0));
  const int all_end = MinOfTile(min(query[0].is_there ? query[0].end : INT32_MAX,
                                    query[1].is_there ? query[1].end : INT32_MAX));

  // Fragments of the queries.
  unsigned q[kDim / 16][4];
  const int row_width = (shape.num_heads + 2 * shape.num_kv_heads) * dim;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const Query& of = query[i % 2];
      const int column = k * 16 + i / 2 * 8 + 2 * t;
      float2 pair = make_float2(0.f, 0.f);
      if (of.is_there && column < dim) {
        pair = *reinterpret_cast<const float2*>(call.qkv + of.row * row_width + of.head * dim +
                                                column);
      }
      q[k][i] = Core::Pack(pair.x, pair.y);
    }
  }

  // Columns beyond the head are zero, and stay so.
  for (int at = static_cast<int>(threadIdx.x); at < 4 * kStep; at += static_cast<int>(blockDim.x)) {
    for (int e = dim; e < kDim; ++e) steps[at * kStride + e] = T{};
  }
#pragma unroll
  for (int n = 0; n < kColumns; ++n) sums[n * kWarpSize] = make_float4(0.f, 0.f, 0.f, 0.f);

  const Walk<kStep> walk(call, unit);
  const int context = call.context[unit.sequence];
  const int32_t* const pages = call.pages + call.page_begin[unit.sequence];

  // Begins to bring a step's keys and values; every warp brings a part of the positions.
  const auto bring = [&](const Place& at, int stage) {
    constexpr int kPerLane = (kStep + kWarpSize - 1) / kWarpSize;
    const int part = kStep / warps, first = warp * part;
    const int end = walk.End(at);
    const int32_t* const path =
        walk.IsShared(at) ? nullptr : call.paths + call.path_begin[walk.PassRow(at)];
    int slot[kPerLane];  // row of the cache, of the head; -1: nobody sees it
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int key = i * kWarpSize + lane;
      const int position = at.step * kStep + first + key;
      slot[i] = -1;
      if (key < part && position >= unit.begin && position < end) {
        const int token =
            path == nullptr || position < context ? position : context + path[position - context];
        const int32_t page = pages[token / shape.page_tokens];
        slot[i] =
            (page * shape.num_kv_heads + kv_head) * shape.page_tokens + token % shape.page_tokens;
      }
    }
    T* const to = steps + stage * (2 * Parts::kMatrix) + first * kStride;
    for (int piece = lane; piece < part * kColumns; piece += kWarpSize) {
      const int key = piece / kColumns, column = piece % kColumns * 8;
      int from = __shfl_sync(kFullWarp, slot[0], key % kWarpSize);
      if constexpr (kPerLane > 1) {
        const int second = __shfl_sync(kFullWarp, slot[1], key % kWarpSize);
        if (key >= kWarpSize) from = second;
      }
      if (column >= dim) continue;
      const int64_t offset = static_cast<int64_t>(max(from, 0)) * dim + column;
      BeginCopy(to + key * kStride + column, keys + offset, from >= 0);
      BeginCopy(to + Parts::kMatrix + key * kStride + column, values + offset, from >= 0);
    }
    CloseCopies();
  };

  const float cap = shape.soft_cap * kLog2e;
  const float product_scale = ScoreScale(shape);
  const float scale = cap > 0 ? 1.f : product_scale;  // capped scores are scaled before
  const bool adds_up = unit.partial < 0 || unit.is_first != 0;
  float out[kColumns][4] = {};                        // of this chunk
  float most[2] = {kNothing, kNothing}, sum[2] = {};  // and of this thread's keys
  float most_of_all[2] = {kNothing, kNothing}, sum_of_all[2] = {};

  Place at = walk.First();
  bring(at, 0);
  for (int stage = 0;; stage ^= 1) {
    // The step is here, and nobody reads the one before any more.
    WaitForCopies<0>();
    __syncthreads();
    Place next = at;
    const bool more = walk.Advance(&next);
    if (more) bring(next, stage ^ 1);

    const int base = at.step * kStep;
    const bool is_shared = walk.IsShared(at);
    bool sees = base < any_end && base + kStep > any_begin;
    if (sees && !is_shared) {
      sees = __any_sync(kFullWarp, query[0].pass == at.pass || query[1].pass == at.pass) != 0;
    }
    if (sees) {
      const T* const key_rows = steps + stage * (2 * Parts::kMatrix);
      const T* const value_rows = key_rows + Parts::kMatrix;

      float score[kStep / 8][4] = {};
      // Two tiles of eight keys by 16 elements at a time.
      const T* const key = key_rows + (lane / 16 * 8 + lane % 8) * kStride + lane / 8 % 2 * 8;
#pragma unroll
      for (int k = 0; k < kDim / 16; ++k) {
#pragma unroll
        for (int n = 0; n < kStep / 16; ++n) {
          unsigned b[4];
          LoadMatrices(key + n * 16 * kStride + k * 16, b);
          Core::MultiplyAdd(q[k], b[0], b[1], score[2 * n]);
          Core::MultiplyAdd(q[k], b[2], b[3], score[2 * n + 1]);
        }
      }
      if (cap > 0) {
#pragma unroll
        for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
          for (float& s : score[n]) s = SoftCap(s * product_scale, cap);
        }
      }
      if (!is_shared || base < all_begin || base + kStep > all_end) {
        const bool in_pass[2] = {is_shared || query[0].pass == at.pass,
                                 is_shared || query[1].pass == at.pass};
#pragma unroll
        for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int position = base + n * 8 + 2 * t + i % 2;
            if (!in_pass[i / 2] || !query[i / 2].Sees(position)) score[n][i] = kNothing;
          }
        }
      }

#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float highest = kNothing;
#pragma unroll
        for (int n = 0; n < kStep / 8; ++n) {
          highest = fmaxf(highest, fmaxf(score[n][2 * r], score[n][2 * r + 1]));
        }
        const float before = most[r];
        most[r] = fmaxf(before, __fmul_rn(MaxOfQuery(highest), scale));
        const float zero = most[r] == kNothing ? 0.f : most[r];
        const float factor = Exp2(before - zero);
        float own = 0.f;
#pragma unroll
        for (int n = 0; n < kStep / 8; ++n) {
#pragma unroll
          for (int i = 2 * r; i < 2 * r + 2; ++i) {
            score[n][i] = Exp2(fmaf(score[n][i], scale, -zero));
            own += score[n][i];
          }
        }
        sum[r] = fmaf(sum[r], factor, own);
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          out[n][2 * r] = __fmul_rn(out[n][2 * r], factor);
          out[n][2 * r + 1] = __fmul_rn(out[n][2 * r + 1], factor);
        }
      }

      // 16 keys by two tiles of eight elements at a time.
      const T* const value = value_rows + (lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8;
#pragma unroll
      for (int k = 0; k < kStep / 16; ++k) {
        // What the product before gave as C is laid out as A is read.
        const unsigned weights[4] = {Core::Pack(score[2 * k][0], score[2 * k][1]),
                                     Core::Pack(score[2 * k][2], score[2 * k][3]),
                                     Core::Pack(score[2 * k + 1][0], score[2 * k + 1][1]),
                                     Core::Pack(score[2 * k + 1][2], score[2 * k + 1][3])};
#pragma unroll
        for (int n = 0; n < kColumns / 2; ++n) {
          unsigned b[4];
          LoadTransposed(value + k * 16 * kStride + n * 16, b);
          Core::MultiplyAdd(weights, b[0], b[1], out[2 * n]);
          Core::MultiplyAdd(weights, b[2], b[3], out[2 * n + 1]);
        }
      }
    }

    if (!more || next.chunk != at.chunk) {
      sum[0] = SumOfQuery(sum[0]);
      sum[1] = SumOfQuery(sum[1]);
      if (adds_up) {
        const Meeting low = Meet(most_of_all[0], sum_of_all[0], most[0], sum[0]);
        const Meeting high = Meet(most_of_all[1], sum_of_all[1], most[1], sum[1]);
        most_of_all[0] = low.max, sum_of_all[0] = low.sum;
        most_of_all[1] = high.max, sum_of_all[1] = high.sum;
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          float4 so_far = sums[n * kWarpSize];
          so_far.x = low.Join(so_far.x, out[n][0]);
          so_far.y = low.Join(so_far.y, out[n][1]);
          so_far.z = high.Join(so_far.z, out[n][2]);
          so_far.w = high.Join(so_far.w, out[n][3]);
          sums[n * kWarpSize] = so_far;
        }
      } else {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (!query[r].is_there) continue;
          const int64_t result = static_cast<int64_t>(at.chunk - unit.chunk_begin) * unit.queries +
                                 warp * kMmaQueries + g + 8 * r;
          float* const to = Partial(call, unit.partial + result, kv_head);
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            if (n * 8 >= dim) break;
            *reinterpret_cast<float2*>(to + n * 8 + 2 * t) =
                make_float2(out[n][2 * r], out[n][2 * r + 1]);
          }
          if (t == 0) *reinterpret_cast<float2*>(to + dim) = make_float2(most[r], sum[r]);
        }
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (float& x : out[n]) x = 0.f;
      }
      most[0] = most[1] = kNothing;
      sum[0] = sum[1] = 0.f;
    }
    if (!more) break;
    at = next;
  }

  if (!adds_up) return;
  float divisor[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (!query[r].is_there) continue;
    divisor[r] = SumWithSink(shape, query[r].head, most_of_all[r], sum_of_all[r]);
  }
  for (int n = 0; n < kColumns; ++n) {
    if (n * 8 >= dim) break;
    const float4 all = sums[n * kWarpSize];
    const float2 of_query[2] = {make_float2(all.x, all.y), make_float2(all.z, all.w)};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!query[r].is_there) continue;
      const int column = n * 8 + 2 * t;
      if (unit.partial < 0) {
        WriteTwo(call, query[r].row, query[r].head, column, of_query[r].x / divisor[r],
                 of_query[r].y / divisor[r]);
        continue;
      }
      const int64_t result = unit.partial + warp * kMmaQueries + g + 8 * r;
      float* const to = Partial(call, result, kv_head);
      *reinterpret_cast<float2*>(to + column) = of_query[r];
      if (column == 0) {
        *reinterpret_cast<float2*>(to + dim) = make_float2(most_of_all[r], sum_of_all[r]);
      }
    }
  }
}

// Calls `with` for the kernel of such heads: one for each of a few sizes, others take the next.
template <class T, class With>
cudaError_t ForHeads(int head_dim, With&& with) {
  if (head_dim <= 64) return with(AttentionMmaKernel<64, T>, Layout<64>());
  if (head_dim <= 96) return with(AttentionMmaKernel<96, T>, Layout<96>());
  if (head_dim <= 128) return with(AttentionMmaKernel<128, T>, Layout<128>());
  return with(AttentionMmaKernel<256, T>, Layout<256>());
}

template <class T>
cudaError_t Prepare() {
  for (const int head_dim : {64, 96, 128, 256}) {
    const cudaError_t error = ForHeads<T>(head_dim, [](auto kernel, auto layout) {
      return AllowShared(kernel, static_cast<size_t>(layout.Bytes(kMmaWarps)));
    });
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

template <class T>
cudaError_t LaunchOf(const AttentionCall& call, const KvLayer& kv, int units, int tile_queries,
                     cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(call.shape.num_kv_heads));
  const int warps = tile_queries <= kMmaQueries ? 1 : tile_queries <= 2 * kMmaQueries ? 2 : 4;
  return ForHeads<T>(call.shape.head_dim, [&](auto kernel, auto layout) {
    return Launch(kernel, grid, static_cast<unsigned>(warps * kWarpSize),
                  static_cast<size_t>(layout.Bytes(warps)), stream, call,
                  static_cast<const T*>(kv.keys), static_cast<const T*>(kv.values));
  });
}

}  // namespace

cudaError_t PrepareAttentionMma() {
  const cudaError_t error = Prepare<Bf16>();
  return error == cudaSuccess ? Prepare<F16>() : error;
}

cudaError_t LaunchAttentionMma(const AttentionCall& call, const KvLayer& kv, int units,
                               int tile_queries, cudaStream_t stream) {
  switch (kv.dtype) {
    case Dtype::kF16: return LaunchOf<F16>(call, kv, units, tile_queries, stream);
    case Dtype::kBf16: return LaunchOf<Bf16>(call, kv, units, tile_queries, stream);
    case Dtype::kF32: break;  // RunsOnTensorCores refuses it
  }
  return cudaErrorInvalidValue;
}

}  // namespace outrider
