// The products of tensor_product.h with weights that stay codes: they are read 16 bytes per lane
// and widened in registers. The cost is that of reading the codes, for one row as for sixteen.
//
// Codes are multiplied as the numbers that they are, exact in bf16 and f16, and the sums over 32 to
// 128 inputs of a group are scaled in f32: a weight is never rounded, unlike with
// LaunchWidenCodes. An offset of a group is multiplied with the sum of its inputs.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/batch_layout.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/elements.h"
#include "common/backend/cuda/kernels/rows.h"

namespace outrider {

// With more, widening the matrix to floats for a library is estimated to be faster: a tile of
// sixteen rows reads codes and x from the L2 cache, which takes a quarter as long as reading codes
// from memory, writing two bytes a weight and reading them.
constexpr int kCodeProductRows = 48;

// Whether there is such a product: groups are a power of two from 32 on, or whole rows, and only
// integers have offsets.
bool HasCodeProduct(const DeviceCodes& codes);
// Whether there is a gated one: the ups' tiles begin in the same place as the gates'.
inline bool HasGatedCodeProduct(const DeviceCodes& codes, int n) {
  return HasCodeProduct(codes) && n % 16 == 0;
}

// As LaunchTensorProduct and LaunchGatedProduct, with `codes` of out_features and of 2n rows.
// REQUIRES: what they require; HasCodeProduct or HasGatedCodeProduct; x is in the order of the
// codes' columns.
template <class T>
cudaError_t LaunchCodeProduct(const DeviceCodes& codes, const T* x, int stride, int out_features,
                              int rows, const float* bias, bool accumulate, float* y,
                              cudaStream_t stream);
template <class T>
cudaError_t LaunchGatedCodeProduct(const DeviceCodes& codes, const T* x, int stride, int n,
                                   int rows, const float* bias, Activation activation, float* out,
                                   RoundedRows rounded, cudaStream_t stream);

// Writes x [rows, stride] in the order of the codes' columns: out[r, column_of_input[i]] = x[r, i],
// zeros from `columns` on. T: Bf16 or F16. REQUIRES: codes.column_of_input is not null.
template <class T>
cudaError_t LaunchOrderInputs(const DeviceCodes& codes, const T* x, int stride, int rows, T* out,
                              cudaStream_t stream);

}  // namespace outrider
