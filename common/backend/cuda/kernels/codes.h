// Launches the kernel that widens a quantized matrix. All pointers are device memory.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/elements.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

// A QuantizedMatrix on the device.
struct DeviceCodes {
  CodeType type = CodeType::kInt8;
  const uint8_t* codes =
      nullptr;  // [rows, row_bytes]; codes of 4 bits are two per byte, the first in the low half
  const float* scales = nullptr;             // [rows, groups], null for kFp4E2M1
  const uint8_t* exponents = nullptr;        // [rows, groups], instead of kFp4E2M1's scales
  const float* offsets = nullptr;            // [rows, groups] or null
  const int32_t* column_of_input = nullptr;  // [columns], or null for the identity
  int columns = 0;
  int row_bytes = 0;
  int group_size = 0;
  int groups = 0;
};

// out[r, i] is the value of input i in row rows[r], or in row r if `rows` is null; zeros from
// `columns` up to `stride`. T: float, Bf16 or F16.
template <class T>
cudaError_t LaunchWidenCodes(const DeviceCodes& codes, const int32_t* rows, int count, int stride,
                             T* out, cudaStream_t stream);

}  // namespace outrider
