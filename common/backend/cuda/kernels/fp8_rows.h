// Launchers of the kernels that prepare products of FP8 weights with FP8 activations. All pointers
// are device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/codes.h"
#include "common/backend/cuda/kernels/elements.h"

namespace outrider {

// A matrix as a library multiplies it: codes E4M3 [rows, stride] and a scale for each row, or those
// of blocks in the order of ProductCall (large_product.h).
struct Fp8Matrix {
  uint8_t* codes = nullptr;
  float* scales = nullptr;
  bool in_blocks = false;
};

// Rounds x[rows, stride] to FP8 with a scale for each row: the smallest power of two by which the
// row's largest magnitude is at most 448, but no less than 2^-117. A row that has an infinity
// becomes NaN, and NaN stays NaN. Blocks of a row all have its scale. REQUIRES: stride is a
// multiple of 8, and of 128 if out.in_blocks.
cudaError_t LaunchRoundToFp8(const Bf16* x, int rows, int stride, Fp8Matrix out,
                             cudaStream_t stream);
// The same, as bf16 values, which hold FP8 times such a scale exactly.
cudaError_t LaunchRoundToFp8(const Bf16* x, int rows, int stride, Bf16* out, cudaStream_t stream);

// The first `rows` rows of a matrix in the layout of code_layout.h as plain rows of `stride`.
// REQUIRES: kFp8E4M3 with a scale for each row, or matrix.in_blocks and out.in_blocks; stride is
// its columns, rounded up to a multiple of 8.
cudaError_t LaunchPlainCodes(const DeviceCodes& matrix, int rows, int stride, Fp8Matrix out,
                             cudaStream_t stream);

}  // namespace outrider
