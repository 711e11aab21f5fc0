#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/experts.h"

namespace outrider {
namespace {

constexpr int kOrderThreads = 512;
constexpr int kCombineThreads = 256;

// A lane records in the bits of one word which of its experts are taken.
static_assert(kMaxExperts <= kWarpSize * 32);

// An expert of a row, or none.
struct Candidate {
  float logit = 0.f;
  int expert = -1;
};

// Whether `a` is chosen before `b`: the larger logit first, NaN before all numbers, and of equal
// ones the lower index.
__device__ inline bool ComesBefore(const Candidate& a, const Candidate& b) {
  if (a.expert < 0 || b.expert < 0) return a.expert >= 0;
  const bool a_is_nan = a.logit != a.logit, b_is_nan = b.logit != b.logit;
  if (a_is_nan || b_is_nan) return a_is_nan && (!b_is_nan || a.expert < b.expert);
  return a.logit > b.logit || (a.logit == b.logit && a.expert < b.expert);
}

// One warp per row.
__global__ void ChooseExpertsKernel(const float* logits, RouterShape shape, int32_t* chosen,
                                    float* weights) {
  AwaitEarlierKernels();
  const int lane = static_cast<int>(threadIdx.x);
  const float* const row_logits = logits + static_cast<int64_t>(blockIdx.x) * shape.experts;
  int32_t* const experts = chosen + static_cast<int64_t>(blockIdx.x) * shape.top_k;
  float* const shares = weights + static_cast<int64_t>(blockIdx.x) * shape.top_k;
  unsigned taken = 0;
  float largest = 0.f, sum = 0.f;
  for (int i = 0; i < shape.top_k; ++i) {
    Candidate best;
    for (int e = lane; e < shape.experts; e += kWarpSize) {
      const Candidate candidate = {row_logits[e], e};
      if ((taken >> e / kWarpSize & 1) == 0 && ComesBefore(candidate, best)) best = candidate;
    }
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const Candidate other = {__shfl_xor_sync(kFullWarp, best.logit, step),
                               __shfl_xor_sync(kFullWarp, best.expert, step)};
      if (ComesBefore(other, best)) best = other;
    }
    if (best.expert % kWarpSize == lane) taken |= 1u << best.expert / kWarpSize;
    if (i == 0) largest = best.logit;
    const float weight = expf(best.logit - largest);
    if (shape.normalizes) sum += weight;
    if (lane == 0) {
      experts[i] = best.expert;
      shares[i] = weight;
    }
  }
  if (!shape.normalizes) {
    for (int e = lane; e < shape.experts; e += kWarpSize) sum += expf(row_logits[e] - largest);
    sum = WarpSum(sum);
  }
  if (lane != 0) return;
  for (int i = 0; i < shape.top_k; ++i) shares[i] /= sum;
}

// Calls f(pair, number of earlier pairs of the same expert) for the pairs of `expert`, one per
// lane. Returns the number of pairs. Must be called by whole warps.
template <class F>
__device__ inline int ForPairsOf(const int32_t* chosen, int pairs, int expert, const F& f) {
  int count = 0;
  for (int first = 0; first < pairs; first += kWarpSize) {
    const int pair = first + Lane();
    const bool is_own = pair < pairs && chosen[pair] == expert;
    const unsigned own = __ballot_sync(kFullWarp, is_own ? 1 : 0);
    if (is_own) f(pair, count + __popc(own & ((1u << Lane()) - 1)));
    count += __popc(own);
  }
  return count;
}

// A single block: counts the pairs of each expert (one warp per expert), sums the counts, then
// writes each pair to its sorted index.
__global__ void __launch_bounds__(kOrderThreads)
    OrderPairsKernel(RouterShape shape, ExpertRouting routing, int pairs, int tile_rows,
                     int max_tiles) {
  AwaitEarlierKernels();
  OUTRIDER_SHARED(int[kMaxExperts + 1], begin);
  OUTRIDER_SHARED(int[kMaxExperts + 1], first_tile);
  for (int e = Warp(); e < shape.experts; e += Warps()) {
    const int count = ForPairsOf(routing.chosen, pairs, e, [](int, int) {});
    if (Lane() == 0) {
      begin[e] = count;
      first_tile[e] = (count + tile_rows - 1) / tile_rows;
    }
  }
  __syncthreads();
  if (Warp() == 0) {
    int sorted = 0, tiles = 0;
    for (int first = 0; first < shape.experts; first += kWarpSize) {
      const int e = first + Lane();
      const int count = e < shape.experts ? begin[e] : 0;
      const int expert_tiles = e < shape.experts ? first_tile[e] : 0;
      const int pairs_through = WarpPrefix(count), tiles_through = WarpPrefix(expert_tiles);
      if (e < shape.experts) {
        begin[e] = sorted + pairs_through - count;
        first_tile[e] = tiles + tiles_through - expert_tiles;
      }
      sorted += __shfl_sync(kFullWarp, pairs_through, kWarpSize - 1);
      tiles += __shfl_sync(kFullWarp, tiles_through, kWarpSize - 1);
    }
    if (Lane() == 0) {
      begin[shape.experts] = sorted;
      first_tile[shape.experts] = tiles;
    }
  }
  __syncthreads();
  auto* const tiles = reinterpret_cast<ExpertTile*>(routing.tiles);
  for (int e = static_cast<int>(threadIdx.x); e <= shape.experts;
       e += static_cast<int>(blockDim.x)) {
    routing.expert_begin[e] = begin[e];
  }
  for (int e = Warp(); e < shape.experts; e += Warps()) {
    ForPairsOf(routing.chosen, pairs, e, [&](int pair, int before) {
      routing.sorted_index[pair] = begin[e] + before;
      routing.sorted_rows[begin[e] + before] = pair / shape.top_k;
    });
    for (int t = first_tile[e] + Lane(); t < first_tile[e + 1]; t += kWarpSize) {
      const int first = begin[e] + (t - first_tile[e]) * tile_rows;
      tiles[t] = {e, first, min(tile_rows, begin[e + 1] - first)};
    }
  }
  for (int t = first_tile[shape.experts] + static_cast<int>(threadIdx.x); t < max_tiles;
       t += static_cast<int>(blockDim.x)) {
    tiles[t] = {};
  }
}

// Blocks along x are rows, along y columns.
__global__ void CombineExpertsKernel(const float* y, RouterShape shape, ExpertRouting routing,
                                     int n, bool accumulate, float* out) {
  AwaitEarlierKernels();
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (i >= n) return;
  const int64_t row = blockIdx.x;
  float sum = accumulate ? out[row * n + i] : 0.f;
  for (int64_t pair = row * shape.top_k; pair < (row + 1) * shape.top_k; ++pair) {
    sum = fmaf(routing.weights[pair], y[static_cast<int64_t>(routing.sorted_index[pair]) * n + i],
               sum);
  }
  out[row * n + i] = sum;
}

}  // namespace

cudaError_t LaunchRouteRows(const float* logits, int rows, const RouterShape& shape,
                            const ExpertRouting& routing, cudaStream_t stream) {
  const cudaError_t error = LaunchNext(ChooseExpertsKernel, static_cast<unsigned>(rows), kWarpSize,
                                       0, stream, logits, shape, routing.chosen, routing.weights);
  if (error != cudaSuccess) return error;
  return LaunchNext(OrderPairsKernel, 1, kOrderThreads, 0, stream, shape, routing,
                    rows * shape.top_k, ExpertTileRows(rows, shape), MaxExpertTiles(rows, shape));
}

cudaError_t LaunchCombineExperts(const float* y, const RouterShape& shape,
                                 const ExpertRouting& routing, int rows, int n, bool accumulate,
                                 float* out, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows), Blocks(n, kCombineThreads));
  return LaunchNext(CombineExpertsKernel, grid, kCombineThreads, 0, stream, y, shape, routing, n,
                    accumulate, out);
}

}  // namespace outrider
