// What the codes of a quantized matrix are worth. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/codes.h"

namespace outrider {

// The subnormals are multiples of 2^-9; other exponents have a bias of 7 instead of f32's 127.
__device__ inline float WidenFp8(unsigned code) {
  const unsigned magnitude = code & 0x7f;
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : __uint_as_float((magnitude << 20) + (120u << 23));
  return (code & 0x80) != 0 ? -value : value;
}

__device__ inline float WidenCode(const DeviceCodes& codes, const uint8_t* row, int column) {
  switch (codes.type) {
    case CodeType::kInt4: return static_cast<float>(row[column / 2] >> column % 2 * 4 & 15);
    case CodeType::kInt8: return static_cast<float>(static_cast<int8_t>(row[column]));
    case CodeType::kFp8E4M3: return WidenFp8(row[column]);
  }
  return 0.f;
}

// The value of input `i` in row `row`.
__device__ inline float WidenInput(const DeviceCodes& codes, int64_t row, int i) {
  const int column = codes.column_of_input != nullptr ? codes.column_of_input[i] : i;
  const int64_t group = row * codes.groups + column / codes.group_size;
  const float offset = codes.offsets != nullptr ? codes.offsets[group] : 0.f;
  return WidenCode(codes, codes.codes + row * codes.row_bytes, column) * codes.scales[group] +
         offset;
}

}  // namespace outrider
