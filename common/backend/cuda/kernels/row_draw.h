// Samples a token from the residual distribution of a target row (ResidualRow of
// common/math/accept.h), by inverting its cumulative weights. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/block.h"
#include "common/backend/cuda/kernels/row_softmax.h"
#include "common/base/types.h"
#include "common/math/accept.h"

namespace outrider {

struct DrawShared {
  double sums[kMaxWarps];
  TokenId drawn;
};

// The token that `coin` selects among the row's entries, which are not negative; -1 if all are 0.
// Must be called by the whole block: each warp sums one part, and the part that contains the coin
// is split again.
__device__ inline TokenId DrawFromRow(const float* row, int n, double coin, DrawShared& shared) {
  constexpr int kShortEntries = 256;
  IndexRange range = {0, n};
  double goal = -1;  // within the range's own sum; not known yet
  while (goal < 0 || (range.end - range.begin > kShortEntries && Warps() > 1)) {
    const IndexRange mine = PartOf(range, Warp());
    double sum = 0;
    ForEntries(row, mine.begin + Lane(), mine.end, kWarpSize,
               [&](float x, int) { sum += static_cast<double>(x); });
    ReduceWarps(sum, shared.sums, Plus());
    if (goal < 0) {
      double total = 0;
      for (int w = 0; w < Warps(); ++w) total += shared.sums[w];
      if (!(total > 0)) return -1;
      goal = coin * total;
    }
    // The parts may sum to slightly less; then the last one with a positive weight is used.
    double before = 0, before_part = 0;
    int part = 0;
    for (int w = 0; w < Warps(); ++w) {
      if (!(shared.sums[w] > 0)) continue;
      part = w;
      before_part = before;
      before += shared.sums[w];
      if (before > goal) break;
    }
    range = PartOf(range, part);
    goal = goal > before_part ? goal - before_part : 0;
  }
  if (Warp() == 0) {
    TokenId drawn = -1;
    double before = 0;
    for (int begin = range.begin; begin < range.end; begin += kWarpSize) {
      const int i = begin + Lane();
      const double weight = i < range.end ? static_cast<double>(row[i]) : 0;
      const double reached = before + WarpPrefix(weight);
      const unsigned some = __ballot_sync(kFullWarp, weight > 0);
      const unsigned passed = __ballot_sync(kFullWarp, weight > 0 && reached > goal);
      if (passed != 0) {
        drawn = begin + __ffs(static_cast<int>(passed)) - 1;
        break;
      }
      if (some != 0) drawn = begin + kWarpSize - 1 - __clz(static_cast<int>(some));
      before = __shfl_sync(kFullWarp, reached, kWarpSize - 1);
    }
    if (Lane() == 0) shared.drawn = drawn;
  }
  __syncthreads();
  return shared.drawn;
}

// The same for max(scale * row - distribution, 0), or for the row itself if that is zero
// everywhere. Changes the row temporarily; `saved` has room for the distribution's entries. Must be
// called by the whole block.
__device__ inline TokenId DrawFromResidual(float* row, int n, double scale,
                                           const SparseRow<double>& distribution, double coin,
                                           float* saved, DrawShared& shared) {
  for (int i = static_cast<int>(threadIdx.x); i < distribution.size;
       i += static_cast<int>(blockDim.x)) {
    float& entry = row[distribution.ids[i]];
    saved[i] = entry;
    const double rest = scale * static_cast<double>(entry) - distribution.Probability(i);
    entry = rest > 0 ? static_cast<float>(rest / scale) : 0.f;
  }
  __syncthreads();
  TokenId drawn = DrawFromRow(row, n, coin, shared);
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < distribution.size;
       i += static_cast<int>(blockDim.x)) {
    row[distribution.ids[i]] = saved[i];
  }
  __syncthreads();
  if (drawn < 0 && distribution.size > 0) drawn = DrawFromRow(row, n, coin, shared);
  return drawn;
}

}  // namespace outrider
