// y[rows, out] (+)= x[rows, in] W^T (+ bias) on tensor cores for few rows of 16-bit values: the
// weights are streamed, 16 bytes per lane, as the left operand of m16n8k16 products whose right
// operand is eight rows of x. The cost is that of reading W, for one row as for sixteen; each
// further tile of sixteen reads W again, from the L2 cache.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/batch_layout.h"
#include "common/backend/cuda/kernels/elements.h"
#include "common/backend/cuda/kernels/rows.h"

namespace outrider {

constexpr int kTensorProductRows = 16;  // with more, a library is faster

// A row's bits depend neither on the other rows nor on their number. T: Bf16 or F16. Strides are
// those of rows, in elements, and multiples of 8; W and x are zero-padded from `in` to the stride.
// Sums are in f32.
// REQUIRES: rows >= 1; w and x aligned to 16 bytes.
template <class T>
cudaError_t LaunchTensorProduct(const T* w, const T* x, int stride, int out_features, int rows,
                                const float* bias, bool accumulate, float* y, cudaStream_t stream);

// The same for w [2n, stride], followed by the activation: out[rows, n] = activation(gate) * up,
// and the same rounded, as LaunchGlu of the product would write it, to the bit.
template <class T>
cudaError_t LaunchGatedProduct(const T* w, const T* x, int stride, int n, int rows,
                               const float* bias, Activation activation, float* out,
                               RoundedRows rounded, cudaStream_t stream);

}  // namespace outrider
