// Widens the codes of a quantized matrix. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/codes.h"
#include "common/math/fp4.h"
#include "common/math/fp8.h"

namespace outrider {

__device__ inline float WidenCode(const DeviceCodes& codes, const uint8_t* row, int column) {
  switch (codes.type) {
    case CodeType::kInt4: return static_cast<float>(row[column / 2] >> column % 2 * 4 & 15);
    case CodeType::kInt8: return static_cast<float>(static_cast<int8_t>(row[column]));
    case CodeType::kFp8E4M3: return Fp8ToFloat(row[column]);
    case CodeType::kFp4E2M1: return Fp4ToFloat(row[column / 2] >> column % 2 * 4 & 15u);
  }
  return 0.f;
}

// The value of input `i` in row `row`.
__device__ inline float WidenInput(const DeviceCodes& codes, int64_t row, int i) {
  const int column = codes.column_of_input != nullptr ? codes.column_of_input[i] : i;
  const int64_t group = row * codes.groups + column / codes.group_size;
  const float offset = codes.offsets != nullptr ? codes.offsets[group] : 0.f;
  const float scale =
      codes.exponents != nullptr ? ExponentToFloat(codes.exponents[group]) : codes.scales[group];
  return WidenCode(codes, codes.codes + row * codes.row_bytes, column) * scale + offset;
}

}  // namespace outrider
