// Products of few rows on tensor cores, for any kind of weights, and what is done with the results.
// Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/glu.h"
#include "common/backend/cuda/kernels/tensor_core.h"

namespace outrider {

constexpr int kProductWarps = 8;  // per block; each processes every eighth step of the inputs

// Loads 16 bytes of weights, which only one block reads, and once: the L1 cache is left to x. Not
// by ld.global.nc, for which they must be unchanged for as long as the kernel runs: a kernel that
// is still widening them from codes may overlap with its start (launch.h).
__device__ inline uint4 LoadStreamed(const void* address) {
#if defined(__CUDACC__)
  uint4 words;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(address));
  return words;
#else
  return *static_cast<const uint4*>(address);
#endif
}

// Starts fetching a 128-byte line into the L2 cache.
__device__ inline void Prefetch([[maybe_unused]] const void* address) {
#if defined(__CUDACC__)
  asm volatile("prefetch.global.L2 [%0];" : : "l"(address));
#endif
}

// Where a product without an activation goes.
struct PlainOutput {
  static constexpr bool kIsGated = false;
  const float* bias;  // null: none
  bool accumulate;
  float* y;  // [rows, out_features]

  __device__ void Write(int row, int output, int out_features, float total) const {
    if (output >= out_features) return;
    if (bias != nullptr) total += bias[output];
    float& result = y[static_cast<int64_t>(row) * out_features + output];
    result = accumulate ? result + total : total;
  }
};

// Where the product of gates and ups goes.
struct GatedOutput {
  static constexpr bool kIsGated = true;
  const float* bias;  // [2 * out_features]; null: none
  Activation activation;
  float* out;  // [rows, out_features]; null: only `rounded` is written
  RoundedRows rounded;

  __device__ void Write(int row, int output, int out_features, float gate, float up) const {
    const bool is_padding = output >= out_features;
    if (is_padding && (rounded.data == nullptr || output >= rounded.stride)) return;
    if (bias != nullptr && !is_padding) {
      gate += bias[output];
      up += bias[out_features + output];
    }
    const float value = is_padding ? 0.f : Gated(activation, gate, up);
    if (out != nullptr && !is_padding) {
      out[static_cast<int64_t>(row) * out_features + output] = value;
    }
    if (rounded.data != nullptr) {
      StoreRounded(rounded, static_cast<int64_t>(row) * rounded.stride + output, value);
    }
  }
};

// Which rows of x a product multiplies: all, in order.
struct AllRows {
  __device__ int operator()(int row) const { return row; }
};

// The sums of a block's warps.
template <int kTilesM, int kTilesN>
using TileSums = float[kProductWarps][kTilesN * 8][kTilesM * 16 + 1];

// Computes kTilesM * 16 outputs, from `first` on, of kTilesN * 8 rows, from `first_row` on; `out`
// gets those below `out_features` and `rows`. Row r is row row_of_x(r) of x [.., stride].
// `weights` are a matrix of out_features rows. If the output is gated, they have 2 * out_features
// rows, and the second of the tiles of outputs are the ups of the first. Must be called by the
// whole block. Waits for earlier kernels.
//
// In the products, 32 inputs are permuted: lane l % 4 has the eight inputs from l % 4 * 8 on, which
// it can load at once, where the instruction expects the pairs l % 4 * 2 and l % 4 * 2 + 8 of each
// of two products.
//
// A row's sum runs over the inputs of each warp, then over the warps: the order is the same for any
// tiles.
//
// Weights is a struct with
//   Element: the type of x, Bf16 or F16
//   kStep: inputs that a warp multiplies at a time, a multiple of 32
//   kAhead: steps whose loads are in flight at once
//   kFewTilesM: tiles of outputs of a block with up to eight rows; with more it has two
//   Blocks(kTilesN): blocks of a multiprocessor for which registers must suffice
//   Tile TileOf(row, last): what a lane needs to find its part of the 16 rows from `row` on. Those
//     beyond `last`, a row of the matrix, are never written.
//   Begin(tile, k): starts fetching the step from input k on, if there is one
//   Step Load(tile, k): the step from input k on, zeros beyond the last input
//   MultiplyAdd(step, values, sum): adds the products of a step's tiles with x. values[p][n] are
//     inputs p * 32 + l % 4 * 8 and the next seven of row n * 8 + l / 4.
template <int kTilesM, int kTilesN, class Weights, class RowOfX, class Output>
__device__ void MultiplyTile(const Weights& weights, const typename Weights::Element* x, int stride,
                             const RowOfX& row_of_x, int first, int out_features, int first_row,
                             int rows, TileSums<kTilesM, kTilesN>& warp_sums, const Output& out) {
  static_assert(!Output::kIsGated || kTilesM == 2);
  constexpr int kStep = Weights::kStep, kAhead = Weights::kAhead, kParts = kStep / 32;
  constexpr int kOutputs = kTilesM * 16, kRows = kTilesN * 8;
  constexpr int kOwn = Output::kIsGated ? 16 : kOutputs;  // outputs of the block
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int group = lane / 4, column = lane % 4 * 8;

  typename Weights::Tile tile[kTilesM];
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
    const int base = Output::kIsGated ? m * out_features : 0;
    tile[m] =
        weights.TileOf(base + first + (Output::kIsGated ? 0 : m * 16), base + out_features - 1);
    // Fetching weights into the L2 cache need not wait for the previous kernel. (Those that it
    // widens from codes are written through the same cache.)
#pragma unroll
    for (int a = 0; a < kAhead; ++a) weights.Begin(tile[m], (warp + a * kProductWarps) * kStep);
  }
  AwaitEarlierKernels();
  int row_of_tile[kTilesN];  // in x
#pragma unroll
  for (int n = 0; n < kTilesN; ++n) {
    const int row = first_row + n * 8 + group;
    row_of_tile[n] = row < rows ? row_of_x(row) : 0;
  }
  float sum[kTilesM][kTilesN][4] = {};
  for (int begin = warp * kStep; begin < stride; begin += kProductWarps * kStep * kAhead) {
    typename Weights::Step step[kAhead][kTilesM];
    uint4 value[kAhead][kParts][kTilesN];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      const int k = begin + a * kProductWarps * kStep;
#pragma unroll
      for (int m = 0; m < kTilesM; ++m) step[a][m] = weights.Load(tile[m], k);
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int input = k + part * 32 + column;
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          value[a][part][n] = input < stride && first_row + n * 8 + group < rows
                                  ? *reinterpret_cast<const uint4*>(
                                        x + static_cast<int64_t>(row_of_tile[n]) * stride + input)
                                  : make_uint4(0, 0, 0, 0);
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (begin + a * kProductWarps * kStep >= stride) break;
      weights.MultiplyAdd(step[a], value[a], sum);
    }
  }

#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int n = 0; n < kTilesN; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        warp_sums[warp][n * 8 + lane % 4 * 2 + i % 2][m * 16 + i / 2 * 8 + group] = sum[m][n][i];
      }
    }
  }
  __syncthreads();
  const auto total = [&](int row, int output) {
    float sum_of_warps = 0.f;
#pragma unroll
    for (int i = 0; i < kProductWarps; ++i) sum_of_warps += warp_sums[i][row][output];
    return sum_of_warps;
  };
  for (int index = static_cast<int>(threadIdx.x); index < kRows * kOwn;
       index += kProductWarps * kWarpSize) {
    const int row = index / kOwn, output = index % kOwn;
    if (first_row + row >= rows) continue;
    if constexpr (Output::kIsGated) {
      out.Write(first_row + row, first + output, out_features, total(row, output),
                total(row, 16 + output));
    } else {
      out.Write(first_row + row, first + output, out_features, total(row, output));
    }
  }
}

// A block computes one tile of all rows of x. Blocks that need the same weights follow each other,
// so that the first reads them from memory and the others from the L2 cache.
template <class Weights, int kTilesM, int kTilesN, class Output>
__global__ void __launch_bounds__(kProductWarps* kWarpSize, Weights::Blocks(kTilesN))
    ProductKernel(Weights weights, const typename Weights::Element* x, int stride, int out_features,
                  int rows, Output out) {
  using Sums = TileSums<kTilesM, kTilesN>;
  OUTRIDER_SHARED(Sums, warp_sums);
  constexpr int kRows = kTilesN * 8, kOwn = Output::kIsGated ? 16 : kTilesM * 16;
  const int row_tiles = (rows + kRows - 1) / kRows;
  const int block = static_cast<int>(blockIdx.x);
  MultiplyTile<kTilesM, kTilesN>(weights, x, stride, AllRows(), block / row_tiles * kOwn,
                                 out_features, block % row_tiles * kRows, rows, warp_sums, out);
}

// Launches the kernel for outputs in tiles of kTilesM * 16 and rows in tiles of kTilesN * 8.
template <int kTilesM, int kTilesN, class Weights, class Output>
cudaError_t LaunchProduct(const Weights& weights, const typename Weights::Element* x, int stride,
                          int out_features, int rows, const Output& out, cudaStream_t stream) {
  constexpr int kOwn = Output::kIsGated ? 16 : kTilesM * 16;
  const unsigned blocks = Blocks(out_features, kOwn) * Blocks(rows, kTilesN * 8);
  return LaunchNext(ProductKernel<Weights, kTilesM, kTilesN, Output>, blocks,
                    kProductWarps * kWarpSize, 0, stream, weights, x, stride, out_features, rows,
                    out);
}

}  // namespace outrider
