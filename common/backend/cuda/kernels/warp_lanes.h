// A warp as the group of lanes that runs a rule (common/rules/lanes.h). Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/block.h"
#include "common/math/kseq.h"

namespace outrider {

struct WarpLanes {
  __device__ int lane() const { return Lane(); }
  __device__ int count() const { return kWarpSize; }
  __device__ void Sync() const { __syncwarp(); }
  __device__ double Sum(double mine) const { return WarpReduce(mine, Plus()); }
  template <class Is>
  __device__ int First(int n, Is is) const {
    for (int begin = 0; begin < n; begin += kWarpSize) {
      const int i = begin + Lane();
      const unsigned found = __ballot_sync(kFullWarp, i < n && is(i));
      if (found != 0) return begin + __ffs(static_cast<int>(found)) - 1;
    }
    return -1;
  }
  __device__ void Rank(const RatioEntry* unsorted, int n, RatioEntry* sorted) const {
    for (int i = Lane(); i < n; i += kWarpSize) {
      int rank = 0;
      for (int j = 0; j < n; ++j) rank += RanksBefore(unsorted[j], unsorted[i]);
      sorted[rank] = unsorted[i];
    }
  }
};

}  // namespace outrider
