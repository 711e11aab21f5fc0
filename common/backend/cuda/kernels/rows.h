// Launchers of the kernels that process rows independently. All pointers are device memory; rows
// are dense and row-major unless stated otherwise. A launcher that takes a `RoundedRows` also
// writes its result there, rounded, for the matrix product that reads it next; `out` may then be
// null, unless stated otherwise.
//
// Each returns errors of the launch itself. A row's bits depend on that row alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/batch_layout.h"
#include "common/backend/cuda/kernels/elements.h"
#include "common/tensor/tensor.h"

namespace outrider {

// [rows, stride] with stride >= n; the padding after n is zeroed. Nothing is written when data is
// null.
struct RoundedRows {
  uint16_t* data = nullptr;  // the bits
  int stride = 0;
  Dtype dtype = Dtype::kBf16;  // or kF16
};

// Whether the code that runs on the current device waits in AwaitEarlierKernels: it was compiled
// for compute capability 9.0 or later. A driver also translates what was compiled for an earlier
// one.
cudaError_t ReadWhetherKernelsAwait(bool* await);

// out[r] = table[tokens[r]], rows of n; rows of the table are `stride` elements apart. T: float,
// Bf16 or F16.
template <class T>
cudaError_t LaunchEmbed(const T* table, int stride, const int32_t* tokens, int rows, int n,
                        float* out, cudaStream_t stream);

// out = x / rms(x) * gain, or out += when `accumulate`, for `heads` runs of n values in each of
// `rows` rows, which are `stride` elements apart in x and out. In place when x == out, which does
// not accumulate.
cudaError_t LaunchRmsNorm(const float* x, const float* gain, int rows, int heads, int n, int stride,
                          float eps, bool accumulate, float* out, RoundedRows rounded,
                          cudaStream_t stream);

// gate_up is [rows, 2n]: out[rows, n] = activation(gate) * up.
cudaError_t LaunchGlu(Activation activation, const float* gate_up, int rows, int n, float* out,
                      RoundedRows rounded, cudaStream_t stream);

// x[rows, n] *= factor.
cudaError_t LaunchScale(float* x, int rows, int n, float factor, cudaStream_t stream);

// Each of x[rows, n] becomes cap * tanh(x / cap).
cudaError_t LaunchSoftCap(float* x, int rows, int n, float cap, cudaStream_t stream);

// out[i] = x[rows[i]], rows of n; all of x in order when `rows` is null, and only the rounded copy
// when `out` is null.
cudaError_t LaunchGatherRows(const float* x, const int32_t* rows, int count, int n, float* out,
                             RoundedRows rounded, cudaStream_t stream);

// out[r] += bias.
cudaError_t LaunchBias(const float* bias, int rows, int n, float* out, cudaStream_t stream);

}  // namespace outrider
