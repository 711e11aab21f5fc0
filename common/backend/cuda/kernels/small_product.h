// y[rows, out] (+)= x[rows, in] W^T (+ bias) in f32 for few rows: each warp reads some rows of W
// once, 16 bytes per lane, and multiplies them with all rows of x.
#pragma once

#include <cuda_runtime.h>

namespace outrider {

constexpr int kSmallProductRows = 8;

// A row's bits depend neither on the other rows nor on their number. Strides are those of rows, in
// elements, and multiples of 8; W and x are zero-padded from `in` to the stride.
// REQUIRES: 1 <= rows <= kSmallProductRows; w and x aligned to 16 bytes.
cudaError_t LaunchSmallProduct(const float* w, const float* x, int stride, int out_features,
                               int rows, const float* bias, bool accumulate, float* y,
                               cudaStream_t stream);

}  // namespace outrider
