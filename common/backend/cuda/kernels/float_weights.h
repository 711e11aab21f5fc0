// Weights of a product that are 16-bit floats. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/product_kernel.h"
#include "common/backend/cuda/kernels/tensor_core.h"

namespace outrider {

// Weights as MultiplyTile takes them: w [out, stride]. T: Bf16 or F16.
template <class T>
struct FloatWeights {
  using Element = T;
  static constexpr int kStep = 64;  // one 128-byte line of each row
  static constexpr int kAhead = 2;
  // With more rows a block computes more outputs, so that x is not read more often than W.
  static constexpr int kFewTilesM = 1;
  static constexpr int kParts = kStep / 32;
  static constexpr int Blocks(int /*tiles_n*/) { return 2; }

  const T* w;
  int stride;

  struct Tile {
    int row[2];  // that a lane reads
  };
  struct Step {
    uint4 values[kParts][2];
  };

  static __device__ int Lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }

  // Rows l / 4 and l / 4 + 8; in place of those beyond the last one, that one is read again.
  __device__ Tile TileOf(int row, int last) const {
    row += Lane() / 4;
    return {{min(row, last), min(row + 8, last)}};
  }

  __device__ const T* At(const Tile& tile, int half, int input) const {
    return w + static_cast<int64_t>(tile.row[half]) * stride + input;
  }

  __device__ void Begin(const Tile& tile, int k) const {
    if (Lane() % 4 != 0 || k >= stride) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) Prefetch(At(tile, half, k));
  }

  __device__ Step Load(const Tile& tile, int k) const {
    Step step;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int input = k + part * 32 + Lane() % 4 * 8;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        step.values[part][half] =
            input < stride ? LoadStreamed(At(tile, half, input)) : make_uint4(0, 0, 0, 0);
      }
    }
    return step;
  }

  template <int kTilesM, int kTilesN>
  __device__ void MultiplyAdd(const Step (&step)[kTilesM], const uint4 (&values)[kParts][kTilesN],
                              float (&sum)[kTilesM][kTilesN][4]) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) {
        const uint4 low = step[m].values[part][0], high = step[m].values[part][1];
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const uint4 v = values[part][n];
          TensorCore<T>::MultiplyAdd({low.x, high.x, low.y, high.y}, v.x, v.y, sum[m][n]);
          TensorCore<T>::MultiplyAdd({low.z, high.z, low.w, high.w}, v.z, v.w, sum[m][n]);
        }
      }
    }
  }
};

}  // namespace outrider
