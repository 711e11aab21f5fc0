// Attention on tensor cores (tiling and stepwise softmax as in Dao 2023). A block's warps have 16
// queries each and share the keys and values, which are copied to shared memory step by step while
// the previous step is processed. A step is a fixed number of keys, starting at a multiple of that
// number whatever the batch, so the order of a query's sums depends on its own positions alone.
//
// Positions of a step that a query does not see have weight 0 and change no bit of its sums,
// whether part of a step or a whole step (its maximum is unchanged, so the sums' factor is 1). So
// it does not matter which queries share a tile. In a tree, a position after the context is a
// different token on each path: there, steps are repeated for every pass, which is a path that
// contains some of the tile's rows, and the other rows see none of its positions.
#include "common/backend/cuda/kernels/attention_few.h"
#include "common/backend/cuda/kernels/attention_mma.h"
#include "common/backend/cuda/kernels/attention_steps.h"
#include "common/backend/cuda/kernels/cache_codes.h"
#include "common/backend/cuda/kernels/kv.h"

namespace outrider {
namespace {

// Shared memory: keys and values of two steps, then each warp's sums of the chunks so far.
template <int kDim, class Stored>
struct Layout {
  static constexpr int kStep = StepPositions(kDim);
  using Steps = StepMemory<kDim, Stored, kStep, 2>;
  static constexpr int kBytesOfSums = kMmaQueries * kDim * static_cast<int>(sizeof(float));
  static constexpr int Bytes(int warps) { return Steps::kBytes + warps * kBytesOfSums; }
  // The limit of a block on any device.
  static_assert(Bytes(kMmaWarps) <= 99 << 10);
  static_assert(kAttentionChunk % kStep == 0);
};

// One unit, by the whole block.
template <int kDim, class Stored>
__device__ inline void AttendOnTensorCores(const AttentionCall& call, const AttentionPlanUnit& unit,
                                           const KvLayer& kv, unsigned char* shared) {
  using T = ProductType<Stored>;
  using Core = TensorCore<T>;
  using Parts = Layout<kDim, Stored>;
  using Steps = typename Parts::Steps;
  constexpr int kStep = Parts::kStep, kStride = Steps::kStride;
  constexpr int kColumns = kDim / 8;  // tiles of C
  const Steps steps{shared};

  const AttentionShape& shape = call.shape;
  const int dim = shape.head_dim;
  const int kv_head = static_cast<int>(blockIdx.y);
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int g = lane / 4, t = lane % 4;  // as in tensor_core.h
  float4* const sums =
      reinterpret_cast<float4*>(shared + Steps::kBytes + warp * Parts::kBytesOfSums) + lane;

  const TileQueries tile(call, unit, kv_head, warp * kMmaQueries);
  const Query* const query = tile.query;
  unsigned q[kDim / 16][4];
  tile.LoadQueries<T>(call, q);

  steps.ClearPadding(dim);
#pragma unroll
  for (int n = 0; n < kColumns; ++n) sums[n * kWarpSize] = make_float4(0.f, 0.f, 0.f, 0.f);

  const StepOrder<kStep> order(call, unit);
  const int context = call.context[unit.sequence];
  const int32_t* const pages = call.pages + call.page_begin[unit.sequence];

  // Each warp copies the keys and values of some positions.
  const int part = kStep / warps, first = warp * part;
  const int pieces = part * Steps::kPieces;
  // Starts copying a step's keys and values.
  const auto copy_step = [&](const StepIndex& index, int stage) {
    constexpr int kPerLane = (kStep + kWarpSize - 1) / kWarpSize;
    const int end = order.End(index);
    const int32_t* const path =
        order.IsShared(index) ? nullptr : call.paths + call.path_begin[order.PassRow(index)];
    int slot[kPerLane];  // row of the cache, within the head; -1: no query sees it
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int key = i * kWarpSize + lane;
      const int position = index.step * kStep + first + key;
      slot[i] = -1;
      if (key < part && position >= unit.begin && position < end) {
        slot[i] = SlotOf(shape, pages, kv_head, context, path, position);
      }
    }
    // All lanes take as many turns, since their shuffles read each other's positions.
    for (int turn = 0; turn < pieces; turn += kWarpSize) {
      const int piece = turn + lane;
      const int key = piece / Steps::kPieces, column = piece % Steps::kPieces * Steps::kPiece;
      int source = __shfl_sync(kFullWarp, slot[0], key % kWarpSize);
      if constexpr (kPerLane > 1) {
        const int second = __shfl_sync(kFullWarp, slot[1], key % kWarpSize);
        if (key >= kWarpSize) source = second;
      }
      if (column >= dim || piece >= pieces) continue;
      const int64_t offset = static_cast<int64_t>(max(source, 0)) * dim + column;
      const auto to = steps.CopyTo(stage, first + key, column);
      BeginCopy(to.key, static_cast<const Stored*>(kv.keys) + offset, source >= 0);
      BeginCopy(to.value, static_cast<const Stored*>(kv.values) + offset, source >= 0);
    }
    CloseCopies();
  };
  // Widens what this thread has copied.
  const auto widen_step = [&](int stage) {
    for (int piece = lane; piece < pieces; piece += kWarpSize) {
      const int column = piece % Steps::kPieces * Steps::kPiece;
      if (column < dim) steps.Widen(stage, first + piece / Steps::kPieces, column);
    }
  };

  const ScoreScales scales(shape, kv.key_scale);
  const bool writes_sum = unit.partial < 0 || unit.is_first != 0;
  float out[kColumns][4] = {};  // of this chunk
  ChunkSoftmax softmax;
  float all_max[2] = {kNoScore, kNoScore}, all_sum[2] = {};

  StepIndex current = order.First();
  copy_step(current, 0);
  for (int stage = 0;; stage ^= 1) {
    // The step has arrived, and no warp reads the previous one any more.
    WaitForCopies<0>();
    __syncthreads();
    StepIndex next = current;
    const bool more = order.Advance(&next);
    if (more) copy_step(next, stage ^ 1);
    if constexpr (Steps::kIsWidened) {
      widen_step(stage);
      __syncthreads();
    }

    const int base = current.step * kStep;
    const bool is_shared = order.IsShared(current);
    if (tile.SeesAny<kStep>(base, is_shared, current.pass)) {
      const T* const key_rows = steps.Keys(stage);
      const T* const value_rows = key_rows + Steps::kMatrix;

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
      scales.CapScores(score);
      tile.MaskScores(base, is_shared, current.pass, score);
      float factor[2];
      softmax.ToWeights(scales.scale, score, factor);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[n][i] = __fmul_rn(out[n][i], factor[i / 2]);
      }

      // 16 keys by two tiles of eight elements at a time.
      const T* const value = value_rows + (lane / 8 % 2 * 8 + lane % 8) * kStride + lane / 16 * 8;
#pragma unroll
      for (int k = 0; k < kStep / 16; ++k) {
        unsigned weights[4];
        PackWeights<T>(score[2 * k], score[2 * k + 1], weights);
#pragma unroll
        for (int n = 0; n < kColumns / 2; ++n) {
          unsigned b[4];
          LoadTransposed(value + k * 16 * kStride + n * 16, b);
          Core::MultiplyAdd(weights, b[0], b[1], out[2 * n]);
          Core::MultiplyAdd(weights, b[2], b[3], out[2 * n + 1]);
        }
      }
    }

    if (!more || next.chunk != current.chunk) {
      softmax.ReduceSums();
      if (writes_sum) {
        const SoftmaxMerge low =
            MergeSoftmax(all_max[0], all_sum[0], softmax.max[0], softmax.sum[0]);
        const SoftmaxMerge high =
            MergeSoftmax(all_max[1], all_sum[1], softmax.max[1], softmax.sum[1]);
        all_max[0] = low.max, all_sum[0] = low.sum;
        all_max[1] = high.max, all_sum[1] = high.sum;
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          float4 so_far = sums[n * kWarpSize];
          so_far.x = low.Add(so_far.x, out[n][0]);
          so_far.y = low.Add(so_far.y, out[n][1]);
          so_far.z = high.Add(so_far.z, out[n][2]);
          so_far.w = high.Add(so_far.w, out[n][3]);
          sums[n * kWarpSize] = so_far;
        }
      } else {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          if (!query[r].is_valid) continue;
          const int64_t result =
              static_cast<int64_t>(current.chunk - unit.chunk_begin) * unit.queries +
              warp * kMmaQueries + g + 8 * r;
          float* const partial = Partial(call, unit.partial + result, kv_head);
#pragma unroll
          for (int n = 0; n < kColumns; ++n) {
            if (n * 8 >= dim) break;
            *reinterpret_cast<float2*>(partial + n * 8 + 2 * t) =
                make_float2(out[n][2 * r], out[n][2 * r + 1]);
          }
          if (t == 0) {
            *reinterpret_cast<float2*>(partial + dim) = make_float2(softmax.max[r], softmax.sum[r]);
          }
        }
      }
#pragma unroll
      for (int n = 0; n < kColumns; ++n) {
#pragma unroll
        for (float& x : out[n]) x = 0.f;
      }
      softmax = ChunkSoftmax();
    }
    if (!more) break;
    current = next;
  }

  if (!writes_sum) return;
  float divisor[2] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (!query[r].is_valid) continue;
    divisor[r] = SumWithSink(shape, query[r].head, all_max[r], all_sum[r]);
  }
  for (int n = 0; n < kColumns; ++n) {
    if (n * 8 >= dim) break;
    const float4 all = sums[n * kWarpSize];
    const float2 query_sums[2] = {make_float2(all.x, all.y), make_float2(all.z, all.w)};
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!query[r].is_valid) continue;
      const int column = n * 8 + 2 * t;
      if (unit.partial < 0) {
        WriteOutputPair(call, query[r].row, query[r].head, column,
                        kv.value_scale * query_sums[r].x / divisor[r],
                        kv.value_scale * query_sums[r].y / divisor[r]);
        continue;
      }
      const int64_t result = unit.partial + warp * kMmaQueries + g + 8 * r;
      float* const partial = Partial(call, result, kv_head);
      *reinterpret_cast<float2*>(partial + column) = query_sums[r];
      if (column == 0) {
        *reinterpret_cast<float2*>(partial + dim) = make_float2(all_max[r], all_sum[r]);
      }
    }
  }
}

// Blocks along y are KV heads.
template <int kDim, class Stored>
__global__ void __launch_bounds__(kMmaWarps* kWarpSize)
    AttentionMmaKernel(AttentionCall call, KvLayer kv) {
  AwaitEarlierKernels();
  OUTRIDER_DYNAMIC_SHARED(unsigned char, shared);
  ForOwnUnits(call, [&](const AttentionPlanUnit& unit) {
    AttendOnTensorCores<kDim, Stored>(call, unit, kv, shared);
  });
}

template <class Stored>
cudaError_t Prepare() {
  const cudaError_t error = ForHeadSizes([](auto dim) {
    return AllowShared(AttentionMmaKernel<dim, Stored>,
                       static_cast<size_t>(Layout<dim, Stored>::Bytes(kMmaWarps)));
  });
  return error == cudaSuccess ? PrepareAttentionFew<Stored>() : error;
}

template <class Stored>
cudaError_t LaunchOf(const AttentionCall& call, const KvLayer& kv, int units, int tile_queries,
                     cudaStream_t stream) {
  if (tile_queries <= kMmaQueries) return LaunchAttentionFew<Stored>(call, kv, units, stream);
  const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(call.shape.num_kv_heads));
  const int warps = tile_queries <= 2 * kMmaQueries ? 2 : 4;
  return ForHeadSize(call.shape.head_dim, [&](auto dim) {
    return LaunchNext(AttentionMmaKernel<dim, Stored>, grid,
                      static_cast<unsigned>(warps * kWarpSize),
                      static_cast<size_t>(Layout<dim, Stored>::Bytes(warps)), stream, call, kv);
  });
}

}  // namespace

cudaError_t PrepareAttentionMma() {
  cudaError_t error = Prepare<Bf16>();
  if (error == cudaSuccess) error = Prepare<F16>();
  return error == cudaSuccess ? Prepare<Fp8>() : error;
}

cudaError_t LaunchAttentionMma(const AttentionCall& call, const KvLayer& kv, int units,
                               int tile_queries, cudaStream_t stream) {
  switch (kv.type) {
    case KvType::kF16: return LaunchOf<F16>(call, kv, units, tile_queries, stream);
    case KvType::kBf16: return LaunchOf<Bf16>(call, kv, units, tile_queries, stream);
    case KvType::kFp8: return LaunchOf<Fp8>(call, kv, units, tile_queries, stream);
    case KvType::kF32: break;  // RunsOnTensorCores refuses it
  }
  return cudaErrorInvalidValue;
}

}  // namespace outrider
