// Attention on tensor cores for tiles of up to 16 queries, as in decoding and in the verification
// of short drafts: a block's four warps share one tile. In each step a warp multiplies the queries
// with some of the keys, all warps read all scores and compute the same weights from them, and each
// warp sums some columns of the values. So every sum runs as in the kernel for many queries
// (attention_mma.cu), where one warp does all of this, and the bits are the same.
#include <bit>

#include "common/backend/cuda/kernels/attention_few.h"
#include "common/backend/cuda/kernels/attention_mma.h"
#include "common/backend/cuda/kernels/attention_steps.h"
#include "common/backend/cuda/kernels/cache_codes.h"

namespace outrider {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kStages = 4;  // steps in shared memory: one in use, the others in flight

// Shared memory: keys and values of the steps, then the scores of one step.
template <int kDim, class Stored>
struct FewLayout {
  static constexpr int kStep = StepPositions(kDim);
  using Steps = StepMemory<kDim, Stored, kStep, kStages>;
  static constexpr int kScoreStride = kStep + 8;  // four rows of pairs fall into different banks
  static constexpr int kBytes =
      Steps::kBytes + kMmaQueries * kScoreStride * static_cast<int>(sizeof(float));
  static_assert(kBytes <= 99 << 10);  // the limit of a block on any device
  static_assert(kAttentionChunk % kStep == 0);
};

// The work of one block. Run must be called by all of its threads.
template <int kDim, class Stored>
class FewQueries {
 public:
  __device__ FewQueries(const AttentionCall& call, const AttentionPlanUnit& unit, int kv_head,
                        const KvLayer& kv, unsigned char* shared)
      : call_(call),
        shape_(call.shape),
        unit_(unit),
        kv_head_(kv_head),
        warp_(static_cast<int>(threadIdx.x) / kWarpSize),
        lane_(static_cast<int>(threadIdx.x) % kWarpSize),
        own_key_(static_cast<int>(threadIdx.x) / kPiecePlaces),
        own_column_(static_cast<int>(threadIdx.x) % kPiecePlaces * Steps::kPiece),
        row_bytes_(static_cast<unsigned>(shape_.head_dim) * sizeof(Stored)),
        key_column_(static_cast<const Stored*>(kv.keys) + own_column_),
        value_column_(static_cast<const Stored*>(kv.values) + own_column_),
        steps_{shared},
        order_(call, unit),
        tile_(call, unit, kv_head, 0),
        scales_(call.shape, kv.key_scale),
        kv_(kv) {
    tile_.template LoadQueries<T>(call, q_);
    steps_.ClearPadding(shape_.head_dim);
  }

  __device__ void Run() {
    StepIndex current = order_.First(), ahead = current;
    bool more_ahead = true;
    int slot[kSlots];  // of `ahead`, looked up one step before they are needed
    FindSlots(ahead, slot);
    const auto copy_next = [&](int stage) {
      if (more_ahead) {
        CopyStep(slot, stage);
        more_ahead = order_.Advance(&ahead);
        if (more_ahead) FindSlots(ahead, slot);
      }
      CloseCopies();
    };
    for (int stage = 0; stage + 1 < kStages; ++stage) copy_next(stage);
    for (int stage = 0;; stage = (stage + 1) % kStages) {
      // The step has arrived, and no warp reads the previous one any more.
      WaitForCopies<kStages - 2>();
      __syncthreads();
      copy_next((stage + kStages - 1) % kStages);
      if constexpr (Steps::kIsWidened) {
        WidenStep(stage);
        __syncthreads();
      }
      ProcessStep(current, stage);
      StepIndex next = current;
      const bool more = order_.Advance(&next);
      if (!more || next.chunk != current.chunk) EndChunk(current.chunk);
      if (!more) break;
      current = next;
    }
    if (WritesSum()) Finish();
  }

 private:
  using T = ProductType<Stored>;
  using Core = TensorCore<T>;
  using Parts = FewLayout<kDim, Stored>;
  using Steps = typename Parts::Steps;
  static constexpr int kStep = Parts::kStep, kStride = Steps::kStride;
  static constexpr int kColumns = kDim / 8;  // tiles of C
  static constexpr int kKeyTiles = kStep / 8;
  static constexpr int kOwnKeyTiles = (kKeyTiles + kWarps - 1) / kWarps;
  // Pairs of tiles of C: each warp has every fourth.
  static constexpr int kOwnPairs = (kColumns / 2 + kWarps - 1) / kWarps;
  static constexpr int kSlots = (kStep + kWarpSize - 1) / kWarpSize;  // per lane
  // Pieces of a row, rounded up to a power of two so that a thread keeps its column.
  static constexpr int kPiecePlaces = static_cast<int>(std::bit_ceil(unsigned{Steps::kPieces}));
  static constexpr int kKeysAtOnce = kThreads / kPiecePlaces;
  static_assert(kStep % kKeysAtOnce == 0 && kWarpSize % kKeysAtOnce == 0);

  __device__ bool WritesSum() const { return unit_.partial < 0 || unit_.is_first != 0; }
  __device__ bool HasPair(int p) const { return p * kWarps + warp_ < kColumns / 2; }
  // The first of this thread's two columns in half `half` of its pair `p`.
  __device__ int ColumnOf(int p, int half) const {
    return (p * kWarps + warp_) * 16 + half * 8 + lane_ % 4 * 2;
  }

  // Looks up where the cache has the keys of a step: each warp looks up all, each lane one or two.
  __device__ void FindSlots(const StepIndex& index, int (&slot)[kSlots]) const {
    const int end = order_.End(index);
    const int32_t* const path =
        order_.IsShared(index) ? nullptr : call_.paths + call_.path_begin[order_.PassRow(index)];
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const int key = i * kWarpSize + lane_;
      const int position = index.step * kStep + key;
      slot[i] = -1;
      if (key < kStep && position >= unit_.begin && position < end) {
        slot[i] = SlotOf(shape_, call_.pages + call_.page_begin[unit_.sequence], kv_head_,
                         call_.context[unit_.sequence], path, position);
      }
    }
  }

  // Starts copying the step's keys and values.
  __device__ void CopyStep(const int (&slot)[kSlots], int stage) const {
    const auto cache_row = [&](const Stored* column, int row) {
      return reinterpret_cast<const unsigned char*>(column) +
             uint64_t{static_cast<unsigned>(row)} * row_bytes_;
    };
#pragma unroll
    for (int i = 0; i < kStep / kKeysAtOnce; ++i) {
      const int source = __shfl_sync(kFullWarp, slot[i * kKeysAtOnce / kWarpSize],
                                     (i * kKeysAtOnce + own_key_) % kWarpSize);
      if (own_column_ >= shape_.head_dim) continue;
      const auto to = steps_.CopyTo(stage, i * kKeysAtOnce + own_key_, own_column_);
      BeginCopy(to.key, cache_row(key_column_, max(source, 0)), source >= 0);
      BeginCopy(to.value, cache_row(value_column_, max(source, 0)), source >= 0);
    }
  }

  // Widens what this thread has copied.
  __device__ void WidenStep(int stage) const {
    if (own_column_ >= shape_.head_dim) return;
#pragma unroll
    for (int i = 0; i < kStep / kKeysAtOnce; ++i) {
      steps_.Widen(stage, i * kKeysAtOnce + own_key_, own_column_);
    }
  }

  // All warps have the same queries, so they skip a step together.
  __device__ void ProcessStep(const StepIndex& index, int stage) {
    const int base = index.step * kStep;
    const bool is_shared = order_.IsShared(index);
    if (!tile_.template SeesAny<kStep>(base, is_shared, index.pass)) return;
    const T* const keys = steps_.Keys(stage);
    WriteScores(keys);
    __syncthreads();
    float score[kKeyTiles][4];
    ReadScores(score);
    tile_.MaskScores(base, is_shared, index.pass, score);
    float factor[2];
    softmax_.ToWeights(scales_.scale, score, factor);
    AddValues(keys + Steps::kMatrix, score, factor);
  }

  // [16, kScoreStride]
  __device__ float* scores() const {
    return reinterpret_cast<float*>(steps_.memory + Steps::kBytes);
  }

  // Writes the scores of this warp's keys.
  __device__ void WriteScores(const T* keys) {
    float score[kOwnKeyTiles][4] = {};
    const int first = warp_ * kOwnKeyTiles;
    if (first >= kKeyTiles) return;
    // One tile of eight keys by 32 elements at a time.
    const T* const key = keys + (first * 8 + lane_ % 8) * kStride + lane_ / 8 * 8;
#pragma unroll
    for (int k = 0; k < kDim / 32; ++k) {
#pragma unroll
      for (int n = 0; n < kOwnKeyTiles; ++n) {
        unsigned b[4];
        LoadMatrices(key + n * 8 * kStride + k * 32, b);
        Core::MultiplyAdd(q_[2 * k], b[0], b[1], score[n]);
        Core::MultiplyAdd(q_[2 * k + 1], b[2], b[3], score[n]);
      }
    }
    scales_.CapScores(score);
    float* const out = scores() + lane_ / 4 * Parts::kScoreStride + lane_ % 4 * 2 + first * 8;
#pragma unroll
    for (int n = 0; n < kOwnKeyTiles; ++n) {
      *reinterpret_cast<float2*>(out + n * 8) = make_float2(score[n][0], score[n][1]);
      *reinterpret_cast<float2*>(out + 8 * Parts::kScoreStride + n * 8) =
          make_float2(score[n][2], score[n][3]);
    }
  }

  __device__ void ReadScores(float (&score)[kKeyTiles][4]) const {
    const float* const in = scores() + lane_ / 4 * Parts::kScoreStride + lane_ % 4 * 2;
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) {
      const float2 low = *reinterpret_cast<const float2*>(in + n * 8);
      const float2 high = *reinterpret_cast<const float2*>(in + 8 * Parts::kScoreStride + n * 8);
      score[n][0] = low.x, score[n][1] = low.y;
      score[n][2] = high.x, score[n][3] = high.y;
    }
  }

  // Adds this warp's columns of the values. `weight` and `factor` come from ChunkSoftmax.
  __device__ void AddValues(const T* values, const float (&weight)[kKeyTiles][4],
                            const float (&factor)[2]) {
#pragma unroll
    for (int p = 0; p < kOwnPairs; ++p) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& x = out_[p][i / 4][i % 4];
        x = __fmul_rn(x, factor[i % 4 / 2]);
      }
    }
    // 16 keys by a pair of tiles at a time.
    const T* const value = values + (lane_ / 8 % 2 * 8 + lane_ % 8) * kStride + lane_ / 16 * 8;
#pragma unroll
    for (int k = 0; k < kStep / 16; ++k) {
      unsigned a[4];
      PackWeights<T>(weight[2 * k], weight[2 * k + 1], a);
#pragma unroll
      for (int p = 0; p < kOwnPairs; ++p) {
        if (!HasPair(p)) continue;
        unsigned b[4];
        LoadTransposed(value + k * 16 * kStride + (p * kWarps + warp_) * 16, b);
        Core::MultiplyAdd(a, b[0], b[1], out_[p][0]);
        Core::MultiplyAdd(a, b[2], b[3], out_[p][1]);
      }
    }
  }

  __device__ void EndChunk(int chunk) {
    softmax_.ReduceSums();
    if (WritesSum()) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const SoftmaxMerge m = MergeSoftmax(max_[r], sum_[r], softmax_.max[r], softmax_.sum[r]);
        max_[r] = m.max;
        sum_[r] = m.sum;
#pragma unroll
        for (int p = 0; p < kOwnPairs; ++p) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 2 * r; i < 2 * r + 2; ++i) {
              all_[p][half][i] = m.Add(all_[p][half][i], out_[p][half][i]);
            }
          }
        }
      }
    } else {
      WritePartials((chunk - unit_.chunk_begin) * unit_.queries, out_, softmax_.max, softmax_.sum);
    }
#pragma unroll
    for (auto& pair : out_) {
#pragma unroll
      for (auto& half : pair) {
#pragma unroll
        for (float& x : half) x = 0.f;
      }
    }
    softmax_ = ChunkSoftmax();
  }

  // Writes the unit's results of all queries, starting with result `first` of the unit.
  __device__ void WritePartials(int first, const float (&out)[kOwnPairs][2][4],
                                const float (&max)[2], const float (&sum)[2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (!tile_.query[r].is_valid) continue;
      const int64_t result = unit_.partial + first + lane_ / 4 + 8 * r;
      float* const partial = Partial(call_, result, kv_head_);
#pragma unroll
      for (int p = 0; p < kOwnPairs; ++p) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int column = ColumnOf(p, half);
          if (!HasPair(p) || column >= shape_.head_dim) continue;
          *reinterpret_cast<float2*>(partial + column) =
              make_float2(out[p][half][2 * r], out[p][half][2 * r + 1]);
        }
      }
      if (threadIdx.x < kWarpSize && lane_ % 4 == 0) {
        *reinterpret_cast<float2*>(partial + shape_.head_dim) = make_float2(max[r], sum[r]);
      }
    }
  }

  // Writes the sum over all chunks.
  __device__ void Finish() const {
    if (unit_.partial >= 0) return WritePartials(0, all_, max_, sum_);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const Query& query = tile_.query[r];
      if (!query.is_valid) continue;
      const float divisor = SumWithSink(shape_, query.head, max_[r], sum_[r]);
#pragma unroll
      for (int p = 0; p < kOwnPairs; ++p) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int column = ColumnOf(p, half);
          if (!HasPair(p) || column >= shape_.head_dim) continue;
          WriteOutputPair(call_, query.row, query.head, column,
                          kv_.value_scale * all_[p][half][2 * r] / divisor,
                          kv_.value_scale * all_[p][half][2 * r + 1] / divisor);
        }
      }
    }
  }

  const AttentionCall& call_;
  const AttentionShape& shape_;
  const AttentionPlanUnit& unit_;
  const int kv_head_, warp_, lane_;
  // What this thread copies in a step: one piece of every kKeysAtOnce-th key and value.
  const int own_key_, own_column_;
  const unsigned row_bytes_;
  const Stored* const key_column_;
  const Stored* const value_column_;
  const Steps steps_;
  const StepOrder<kStep> order_;
  const TileQueries tile_;
  const ScoreScales scales_;
  const KvLayer& kv_;
  unsigned q_[kDim / 16][4];
  // Sums of this chunk, then of all chunks before it.
  ChunkSoftmax softmax_;
  float out_[kOwnPairs][2][4] = {};
  float max_[2] = {kNoScore, kNoScore}, sum_[2] = {};
  float all_[kOwnPairs][2][4] = {};
};

// The registers of three blocks, so that nothing is spilled; heads of 256 take those of two.
template <int kDim, class Stored>
__global__ void __launch_bounds__(kThreads, kDim <= 128 ? 3 : 2)
    AttentionFewKernel(AttentionCall call, KvLayer kv) {
  AwaitEarlierKernels();
  OUTRIDER_DYNAMIC_SHARED(unsigned char, shared);
  ForOwnUnits(call, [&](const AttentionPlanUnit& unit) {
    FewQueries<kDim, Stored>(call, unit, static_cast<int>(blockIdx.y), kv, shared).Run();
  });
}

}  // namespace

template <class Stored>
cudaError_t PrepareAttentionFew() {
  return ForHeadSizes([](auto dim) {
    return AllowShared(AttentionFewKernel<dim, Stored>,
                       static_cast<size_t>(FewLayout<dim, Stored>::kBytes));
  });
}
template cudaError_t PrepareAttentionFew<Bf16>();
template cudaError_t PrepareAttentionFew<F16>();
template cudaError_t PrepareAttentionFew<Fp8>();

template <class Stored>
cudaError_t LaunchAttentionFew(const AttentionCall& call, const KvLayer& kv, int units,
                               cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(units), static_cast<unsigned>(call.shape.num_kv_heads));
  return ForHeadSize(call.shape.head_dim, [&](auto dim) {
    return LaunchNext(AttentionFewKernel<dim, Stored>, grid, kThreads,
                      static_cast<size_t>(FewLayout<dim, Stored>::kBytes), stream, call, kv);
  });
}
template cudaError_t LaunchAttentionFew<Bf16>(const AttentionCall&, const KvLayer&, int,
                                              cudaStream_t);
template cudaError_t LaunchAttentionFew<F16>(const AttentionCall&, const KvLayer&, int,
                                             cudaStream_t);
template cudaError_t LaunchAttentionFew<Fp8>(const AttentionCall&, const KvLayer&, int,
                                             cudaStream_t);

}  // namespace outrider
