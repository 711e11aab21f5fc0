#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/glu.h"
#include "common/backend/cuda/kernels/rows.h"

namespace outrider {
namespace {

constexpr int kThreads = 256;

// table [vocab, stride], out [rows, n]; one block per row.
template <class T>
__global__ void EmbedKernel(const T* table, int stride, const int32_t* tokens, int n, float* out) {
  AwaitEarlierKernels();
  const T* table_row = table + static_cast<int64_t>(tokens[blockIdx.x]) * stride;
  float* out_row = out + static_cast<int64_t>(blockIdx.x) * n;
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
    out_row[i] = Widen(table_row[i]);
  }
}

__device__ inline float4 LoadFour(const float* values) {
  return *reinterpret_cast<const float4*>(values);
}

// Writes elements `index` to `index` + 3 of rows for a product, `index` a multiple of 4.
__device__ inline void StoreFourRounded(const RoundedRows& rows, int64_t index, float4 value) {
  uint2 bits;
  bits.x = Round(value.x, rows.dtype) | static_cast<unsigned>(Round(value.y, rows.dtype)) << 16;
  bits.y = Round(value.z, rows.dtype) | static_cast<unsigned>(Round(value.w, rows.dtype)) << 16;
  *reinterpret_cast<uint2*>(rows.data + index) = bits;
}

// Zeroes the padding after the n values of this block's row.
__device__ inline void ClearBeyond(const RoundedRows& rows, int n) {
  if (rows.data == nullptr) return;
  uint16_t* const row = rows.data + static_cast<int64_t>(blockIdx.x) * rows.stride;
  for (int i = n + static_cast<int>(threadIdx.x); i < rows.stride;
       i += static_cast<int>(blockDim.x)) {
    row[i] = 0;
  }
}

// One block per head of a row. Each thread has kVectors times four neighbouring values, so that the
// loads of the whole row, and of the gains, are in flight at once.
template <int kVectors>
__global__ void __launch_bounds__(512)
    RmsNormKernel(const float* x, const float* gain, int n, int stride, float eps, bool accumulate,
                  float* out, RoundedRows rounded) {
  AwaitEarlierKernels();
  OUTRIDER_SHARED(float[kWarpSize], warp_sums);
  const int64_t offset =
      static_cast<int64_t>(blockIdx.x) * stride + static_cast<int64_t>(blockIdx.y) * n;
  const int first = static_cast<int>(threadIdx.x) * 4, step = static_cast<int>(blockDim.x) * 4;
  float4 value[kVectors], weight[kVectors], before[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = first + v * step;
    const bool in_row = i < n;
    value[v] = in_row ? LoadFour(x + offset + i) : float4{};
    weight[v] = in_row ? LoadFour(gain + i) : float4{};
    before[v] = in_row && accumulate ? LoadFour(out + offset + i) : float4{};
  }
  float sum = 0.f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    sum = fmaf(value[v].x, value[v].x, sum);
    sum = fmaf(value[v].y, value[v].y, sum);
    sum = fmaf(value[v].z, value[v].z, sum);
    sum = fmaf(value[v].w, value[v].w, sum);
  }
  const float mean = BlockSum(sum, warp_sums) / static_cast<float>(n);
  const float scale = 1.f / sqrtf(mean + eps);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int i = first + v * step;
    if (i >= n) break;
    float4 normed = {value[v].x * scale * weight[v].x, value[v].y * scale * weight[v].y,
                     value[v].z * scale * weight[v].z, value[v].w * scale * weight[v].w};
    if (accumulate) {
      normed = {before[v].x + normed.x, before[v].y + normed.y, before[v].z + normed.z,
                before[v].w + normed.w};
    }
    if (out != nullptr) *reinterpret_cast<float4*>(out + offset + i) = normed;
    if (rounded.data != nullptr) {
      StoreFourRounded(rounded, static_cast<int64_t>(blockIdx.x) * rounded.stride + i, normed);
    }
  }
  ClearBeyond(rounded, n);
}

// The same for rows that cannot be read in vectors, or that do not fit into a block's registers.
__global__ void __launch_bounds__(512)
    AnyRmsNormKernel(const float* x, const float* gain, int n, int stride, float eps,
                     bool accumulate, float* out, RoundedRows rounded) {
  AwaitEarlierKernels();
  OUTRIDER_SHARED(float[kWarpSize], warp_sums);
  const int64_t offset =
      static_cast<int64_t>(blockIdx.x) * stride + static_cast<int64_t>(blockIdx.y) * n;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  float sum = 0.f;
  for (int i = first; i < n; i += step) sum = fmaf(x[offset + i], x[offset + i], sum);
  const float mean = BlockSum(sum, warp_sums) / static_cast<float>(n);
  const float scale = 1.f / sqrtf(mean + eps);
  for (int i = first; i < n; i += step) {
    const float normed = x[offset + i] * scale * gain[i];
    const float value = accumulate ? out[offset + i] + normed : normed;
    if (out != nullptr) out[offset + i] = value;
    if (rounded.data != nullptr) {
      StoreRounded(rounded, static_cast<int64_t>(blockIdx.x) * rounded.stride + i, value);
    }
  }
  ClearBeyond(rounded, n);
}

// gate_up [rows, 2 * n], out [rows, n]. Blocks along x are rows, along y columns, up to the stride
// of the rounded rows.
template <Activation kActivation>
__global__ void GluKernel(const float* gate_up, int n, float* out, RoundedRows rounded) {
  AwaitEarlierKernels();
  const int64_t row = blockIdx.x;
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (i < n) {
    const float value = Gated<kActivation>(gate_up[row * 2 * n + i], gate_up[row * 2 * n + n + i]);
    if (out != nullptr) out[row * n + i] = value;
    if (rounded.data != nullptr) StoreRounded(rounded, row * rounded.stride + i, value);
  } else if (rounded.data != nullptr && i < rounded.stride) {
    rounded.data[row * rounded.stride + i] = 0;
  }
}

// out [count, n]. Blocks as in GluKernel, and in the kernels below.
__global__ void GatherRowsKernel(const float* x, const int32_t* rows, int n, float* out,
                                 RoundedRows rounded) {
  AwaitEarlierKernels();
  const int64_t row = blockIdx.x;
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (i < n) {
    const float value = x[(rows == nullptr ? row : rows[row]) * n + i];
    if (out != nullptr) out[row * n + i] = value;
    if (rounded.data != nullptr) StoreRounded(rounded, row * rounded.stride + i, value);
  } else if (rounded.data != nullptr && i < rounded.stride) {
    rounded.data[row * rounded.stride + i] = 0;
  }
}

__global__ void ScaleKernel(float* x, int n, float factor) {
  AwaitEarlierKernels();
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (i < n) x[static_cast<int64_t>(blockIdx.x) * n + i] *= factor;
}

__global__ void SoftCapKernel(float* x, int n, float cap) {
  AwaitEarlierKernels();
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (i >= n) return;
  float& value = x[static_cast<int64_t>(blockIdx.x) * n + i];
  value = cap * tanhf(value / cap);
}

__global__ void BiasKernel(const float* bias, int n, float* out) {
  AwaitEarlierKernels();
  const int i = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (i >= n) return;
  out[static_cast<int64_t>(blockIdx.x) * n + i] += bias[i];
}

bool IsAlignedForVectors(const float* values) {
  return reinterpret_cast<uintptr_t>(values) % sizeof(float4) == 0;
}

// A grid's y dimension is limited to 65,535 blocks; the rows, which may be more, go along x.
dim3 ColumnGrid(int columns, int rows) {
  return dim3(static_cast<unsigned>(rows), Blocks(columns, kThreads));
}

}  // namespace

cudaError_t ReadWhetherKernelsAwait(bool* await) {
  cudaFuncAttributes attributes = {};
  const cudaError_t error =
      cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(ScaleKernel));
  *await = error == cudaSuccess && attributes.ptxVersion >= 90;  // __CUDA_ARCH__ / 10
  return error;
}

template <class T>
cudaError_t LaunchEmbed(const T* table, int stride, const int32_t* tokens, int rows, int n,
                        float* out, cudaStream_t stream) {
  return LaunchNext(EmbedKernel<T>, static_cast<unsigned>(rows), kThreads, 0, stream, table, stride,
                    tokens, n, out);
}
template cudaError_t LaunchEmbed(const float*, int, const int32_t*, int, int, float*, cudaStream_t);
template cudaError_t LaunchEmbed(const Bf16*, int, const int32_t*, int, int, float*, cudaStream_t);
template cudaError_t LaunchEmbed(const F16*, int, const int32_t*, int, int, float*, cudaStream_t);

cudaError_t LaunchRmsNorm(const float* x, const float* gain, int rows, int heads, int n, int stride,
                          float eps, bool accumulate, float* out, RoundedRows rounded,
                          cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(heads));
  const unsigned threads = ThreadsForRow(n);
  const auto launch = [&](auto* kernel) {
    return LaunchNext(kernel, grid, threads, 0, stream, x, gain, n, stride, eps, accumulate, out,
                      rounded);
  };
  const bool vectors = n % 4 == 0 && stride % 4 == 0 && IsAlignedForVectors(x) &&
                       IsAlignedForVectors(gain) && IsAlignedForVectors(out);
  const int per_thread = (n + static_cast<int>(threads) - 1) / static_cast<int>(threads);
  if (!vectors || per_thread > 32) return launch(AnyRmsNormKernel);
  if (per_thread <= 4) return launch(RmsNormKernel<1>);
  if (per_thread <= 8) return launch(RmsNormKernel<2>);
  if (per_thread <= 16) return launch(RmsNormKernel<4>);
  return launch(RmsNormKernel<8>);
}

cudaError_t LaunchGlu(Activation activation, const float* gate_up, int rows, int n, float* out,
                      RoundedRows rounded, cudaStream_t stream) {
  const dim3 grid = ColumnGrid(rounded.data != nullptr ? rounded.stride : n, rows);
  const auto launch = [&](auto* kernel) {
    return LaunchNext(kernel, grid, kThreads, 0, stream, gate_up, n, out, rounded);
  };
  switch (activation) {
    case Activation::kSilu: return launch(GluKernel<Activation::kSilu>);
    case Activation::kGeluTanh: return launch(GluKernel<Activation::kGeluTanh>);
    case Activation::kClampedSwiglu: return launch(GluKernel<Activation::kClampedSwiglu>);
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchScale(float* x, int rows, int n, float factor, cudaStream_t stream) {
  return LaunchNext(ScaleKernel, ColumnGrid(n, rows), kThreads, 0, stream, x, n, factor);
}

cudaError_t LaunchSoftCap(float* x, int rows, int n, float cap, cudaStream_t stream) {
  return LaunchNext(SoftCapKernel, ColumnGrid(n, rows), kThreads, 0, stream, x, n, cap);
}

cudaError_t LaunchGatherRows(const float* x, const int32_t* rows, int count, int n, float* out,
                             RoundedRows rounded, cudaStream_t stream) {
  const dim3 grid = ColumnGrid(rounded.data != nullptr ? rounded.stride : n, count);
  return LaunchNext(GatherRowsKernel, grid, kThreads, 0, stream, x, rows, n, out, rounded);
}

cudaError_t LaunchBias(const float* bias, int rows, int n, float* out, cudaStream_t stream) {
  return LaunchNext(BiasKernel, ColumnGrid(n, rows), kThreads, 0, stream, bias, n, out);
}

}  // namespace outrider
