// Rules are written once for a group of lanes that run them together: one lane on the host, the
// threads of a warp on a GPU. All lanes take the same path and see the same values; only loops over
// the entries of a distribution are divided: lane l takes entries l, l + count(), and so on, and
// Sync() follows before another lane's results are read.
//
// A group L has
//   int lane(), int count()       this lane's index, and the number of lanes
//   void Sync()                   waits until all lanes are here
//   double Sum(double mine)       the sum of all lanes' values, the same in every lane
//   int First(int n, is)          the first i below n for which is(i); -1: none
//   void Rank(unsorted, n, sorted)  copies n RatioEntry in the order of RanksBefore
// The host's is OneLane below; the GPU's is WarpLanes (common/backend/cuda/kernels/warp_lanes.h).
#pragma once

#include <algorithm>

#include "common/math/kseq.h"

// Marks a function that a group of lanes runs. nvcc compiles it only for the device.
#if defined(__CUDACC__)
#define OUTRIDER_LANES __device__
#else
#define OUTRIDER_LANES
#endif

namespace outrider {

struct OneLane {
  int lane() const { return 0; }
  int count() const { return 1; }
  void Sync() const {}
  double Sum(double mine) const { return mine; }
  template <class Is>
  int First(int n, Is is) const {
    for (int i = 0; i < n; ++i) {
      if (is(i)) return i;
    }
    return -1;
  }
  void Rank(const RatioEntry* unsorted, int n, RatioEntry* sorted) const {
    std::copy(unsorted, unsorted + n, sorted);
    std::sort(sorted, sorted + n, RanksBefore);
  }
};

}  // namespace outrider
