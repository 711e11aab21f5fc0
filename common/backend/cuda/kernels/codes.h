// Launches the kernel that widens a quantized matrix. All pointers are device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/elements.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

// Sides of the blocks of FP8 weights that share a scale.
constexpr int kScaleBlock = 128;

// A QuantizedMatrix on the device, laid out as code_layout.h says, aligned to 16 bytes.
struct DeviceCodes {
  CodeType type = CodeType::kInt8;
  const uint8_t* codes = nullptr;            // no NaN
  const float* scales = nullptr;             // null for kFp4E2M1
  const uint8_t* exponents = nullptr;        // instead of kFp4E2M1's scales
  const float* offsets = nullptr;            // null: all 0, for kInt4 all -8 scales
  const int32_t* column_of_input = nullptr;  // [columns], or null for the identity
  int columns = 0;
  int group_size = 0;
  int groups = 0;  // of a row
  // kFp8E4M3 without offsets: each kScaleBlock rows have the scales of the first of them, in groups
  // of kScaleBlock columns, and both sides are multiples of it.
  bool in_blocks = false;
};

// out[r, i] is the value of input i in row rows[r], or in row r if `rows` is null; zeros from
// `columns` up to `stride`. T: float, Bf16 or F16.
template <class T>
cudaError_t LaunchWidenCodes(const DeviceCodes& codes, const int32_t* rows, int count, int stride,
                             T* out, cudaStream_t stream);

}  // namespace outrider
