// y[rows, out] (+)= x[rows, in] W^T (+ bias) for few rows, where reading W is all the work: each
// warp reads some rows of W once, 16 bytes a lane, and multiplies them with all rows of x.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/elements.h"

namespace outrider {

constexpr int kSmallProductRows = 8;

// A row's bits depend neither on the other rows nor on their number. T: float, Bf16 or F16.
// Strides are of rows, in elements, multiples of 8; behind `in`, W and x hold zeros up to the
// stride. REQUIRES: 1 <= rows <= kSmallProductRows; w and x aligned to 16 bytes.
template <class T>
cudaError_t LaunchSmallProduct(const T* w, const T* x, int stride, int out_features, int rows,
                               const float* bias, bool accumulate, float* y, cudaStream_t stream);

}  // namespace outrider
