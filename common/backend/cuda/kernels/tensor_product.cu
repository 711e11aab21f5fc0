#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/glu.h"
#include "common/backend/cuda/kernels/tensor_core.h"
#include "common/backend/cuda/kernels/tensor_product.h"

namespace outrider {
namespace {

constexpr int kWarps = 8;  // per block; each processes every eighth step of the inputs
constexpr int kStep = 64;  // inputs: one 128-byte line of each row of W
constexpr int kAhead = 2;  // steps whose loads are in flight at once

// Loads eight neighbouring values of W, which only one block reads, and once: the L1 cache is left
// to x.
template <class T>
__device__ inline uint4 LoadStreamed(const T* values) {
#if defined(__CUDACC__)
  uint4 words;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(values));
  return words;
#else
  return *reinterpret_cast<const uint4*>(values);
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

// w [out_features, stride], x [rows, stride]; if the output is gated, w has 2 * out_features rows,
// and the second of a block's tiles of outputs are the ups of the first.
//
// A block computes kTilesM * 16 outputs of kTilesN * 8 rows. In the products, 32 inputs are
// permuted: lane l % 4 has the eight inputs from l % 4 * 8 on, which it can load at once, where the
// instruction expects the pairs l % 4 * 2 and l % 4 * 2 + 8 of each of two products.
//
// A row's sum runs over the inputs of each warp, then over the warps: the order is the same for any
// tiles.
template <class T, int kTilesM, int kTilesN, class Output>
__global__ void __launch_bounds__(kWarps* kWarpSize)
    TensorProductKernel(const T* w, const T* x, int stride, int out_features, int rows,
                        Output out) {
  static_assert(!Output::kIsGated || kTilesM == 2);
  constexpr int kOutputs = kTilesM * 16, kRows = kTilesN * 8;
  constexpr int kOwn = Output::kIsGated ? 16 : kOutputs;  // outputs of the block
  __shared__ float warp_sums[kWarps][kRows][kOutputs + 1];
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int group = lane / 4, column = lane % 4 * 8;
  const int first = static_cast<int>(blockIdx.x) * kOwn;

  // The last block may have fewer outputs: it computes the last one several times.
  const T* weight_row[kTilesM][2];
#pragma unroll
  for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int tile = Output::kIsGated ? 0 : m * 16;
      const int output = min(first + tile + half * 8 + group, out_features - 1) +
                         (Output::kIsGated ? m * out_features : 0);
      weight_row[m][half] = w + static_cast<int64_t>(output) * stride;
      // Prefetching weights need not wait for the previous kernel. (Weights that it widens from
      // codes are written through the same cache.)
#pragma unroll
      for (int a = 0; a < kAhead; ++a) {
        const int k = (warp + a * kWarps) * kStep;
        if (column == 0 && k < stride) Prefetch(weight_row[m][half] + k);
      }
    }
  }
  AwaitEarlierKernels();
  float sum[kTilesM][kTilesN][4] = {};
  for (int begin = warp * kStep; begin < stride; begin += kWarps * kStep * kAhead) {
    uint4 weight[kAhead][2][kTilesM][2], value[kAhead][2][kTilesN];
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int k = begin + a * kWarps * kStep + part * 32 + column;
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            weight[a][part][m][half] =
                k < stride ? LoadStreamed(weight_row[m][half] + k) : make_uint4(0, 0, 0, 0);
          }
        }
#pragma unroll
        for (int n = 0; n < kTilesN; ++n) {
          const int row = n * 8 + group;
          value[a][part][n] =
              k < stride && row < rows
                  ? *reinterpret_cast<const uint4*>(x + static_cast<int64_t>(row) * stride + k)
                  : make_uint4(0, 0, 0, 0);
        }
      }
    }
#pragma unroll
    for (int a = 0; a < kAhead; ++a) {
      if (begin + a * kWarps * kStep >= stride) break;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
#pragma unroll
        for (int m = 0; m < kTilesM; ++m) {
          const uint4 low = weight[a][part][m][0], high = weight[a][part][m][1];
#pragma unroll
          for (int n = 0; n < kTilesN; ++n) {
            const uint4 v = value[a][part][n];
            TensorCore<T>::MultiplyAdd({low.x, high.x, low.y, high.y}, v.x, v.y, sum[m][n]);
            TensorCore<T>::MultiplyAdd({low.z, high.z, low.w, high.w}, v.z, v.w, sum[m][n]);
          }
        }
      }
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
    for (int i = 0; i < kWarps; ++i) sum_of_warps += warp_sums[i][row][output];
    return sum_of_warps;
  };
  for (int index = static_cast<int>(threadIdx.x); index < kRows * kOwn;
       index += kWarps * kWarpSize) {
    const int row = index / kOwn, output = index % kOwn;
    if (row >= rows) continue;
    if constexpr (Output::kIsGated) {
      out.Write(row, first + output, out_features, total(row, output), total(row, 16 + output));
    } else {
      out.Write(row, first + output, out_features, total(row, output));
    }
  }
}

}  // namespace

template <class T>
cudaError_t LaunchTensorProduct(const T* w, const T* x, int stride, int out_features, int rows,
                                const float* bias, bool accumulate, float* y, cudaStream_t stream) {
  if (rows < 1 || rows > kTensorProductRows) return cudaErrorInvalidValue;
  const auto launch = [&](auto kernel, int outputs) {
    return LaunchNext(kernel, Blocks(out_features, outputs), kWarps * kWarpSize, 0, stream, w, x,
                      stride, out_features, rows, PlainOutput{bias, accumulate, y});
  };
  // With more rows a block computes more outputs, so that x is not read more often than W.
  if (rows <= 8) return launch(TensorProductKernel<T, 1, 1, PlainOutput>, 16);
  return launch(TensorProductKernel<T, 2, 2, PlainOutput>, 32);
}
template cudaError_t LaunchTensorProduct(const Bf16*, const Bf16*, int, int, int, const float*,
                                         bool, float*, cudaStream_t);
template cudaError_t LaunchTensorProduct(const F16*, const F16*, int, int, int, const float*, bool,
                                         float*, cudaStream_t);

template <class T>
cudaError_t LaunchGatedProduct(const T* w, const T* x, int stride, int n, int rows,
                               const float* bias, Activation activation, float* out,
                               RoundedRows rounded, cudaStream_t stream) {
  if (rows < 1 || rows > kTensorProductRows) return cudaErrorInvalidValue;
  const auto launch = [&](auto kernel) {
    return LaunchNext(kernel, Blocks(n, 16), kWarps * kWarpSize, 0, stream, w, x, stride, n, rows,
                      GatedOutput{bias, activation, out, rounded});
  };
  if (rows <= 8) return launch(TensorProductKernel<T, 2, 1, GatedOutput>);
  return launch(TensorProductKernel<T, 2, 2, GatedOutput>);
}
template cudaError_t LaunchGatedProduct(const Bf16*, const Bf16*, int, int, int, const float*,
                                        Activation, float*, RoundedRows, cudaStream_t);
template cudaError_t LaunchGatedProduct(const F16*, const F16*, int, int, int, const float*,
                                        Activation, float*, RoundedRows, cudaStream_t);

}  // namespace outrider
