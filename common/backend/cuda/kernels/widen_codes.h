// Widens the codes of a quantized matrix to f32. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/code_layout.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/math/fp4.h"
#include "common/math/fp8.h"

namespace outrider {

__device__ inline float WidenCode(CodeType type, unsigned code) {
  switch (type) {
    case CodeType::kInt4: return static_cast<float>(code);
    case CodeType::kInt8: return static_cast<float>(static_cast<int8_t>(code));
    case CodeType::kFp8E4M3: return Fp8ToFloat(static_cast<uint8_t>(code));
    case CodeType::kFp4E2M1: return Fp4ToFloat(code);
  }
  return 0.f;
}

// Eight codes of a row from column `first` on, a multiple of 8.
struct EightCodes {
  uint32_t words[2];
};
__device__ inline EightCodes LoadEightCodes(const DeviceCodes& codes, int64_t row, int first) {
  const uint8_t* const at = codes.codes +
                            row / kCodeTileRows * CodeTileBytes(codes.type, codes.columns) +
                            EightCodesAt(codes.type, static_cast<int>(row % kCodeTileRows), first);
  if (HasFourBits(codes.type)) return {{*reinterpret_cast<const uint32_t*>(at), 0}};
  const uint2 words = *reinterpret_cast<const uint2*>(at);
  return {{words.x, words.y}};
}

struct ScaleAndOffset {
  float scale, offset;
};
__device__ inline ScaleAndOffset LoadScale(const DeviceCodes& codes, int64_t row, int group) {
  const int64_t at = ScaleAt(codes.groups, row, group);
  const float scale =
      codes.exponents != nullptr ? ExponentToFloat(codes.exponents[at]) : codes.scales[at];
  if (codes.offsets != nullptr) return {scale, codes.offsets[at]};
  return {scale, codes.type == CodeType::kInt4 ? -8.f * scale : 0.f};
}

// The value of input `i` in row `row`.
__device__ inline float WidenInput(const DeviceCodes& codes, int64_t row, int i) {
  const int column = codes.column_of_input != nullptr ? codes.column_of_input[i] : i;
  const ScaleAndOffset group = LoadScale(codes, row, column / codes.group_size);
  const EightCodes eight = LoadEightCodes(codes, row, column / 8 * 8);
  const unsigned code = CodeOfEight(codes.type, eight.words, column % 8);
  return WidenCode(codes.type, code) * group.scale + group.offset;
}

// The values of inputs `first` to first + 7, zeros from `columns` on. REQUIRES: first is a multiple
// of 8.
__device__ inline void WidenEight(const DeviceCodes& codes, int64_t row, int first,
                                  float (&out)[8]) {
  const int last = min(first + 8, codes.columns) - 1;
  const bool is_one_group = first <= last && codes.column_of_input == nullptr &&
                            first / codes.group_size == last / codes.group_size;
  if (!is_one_group) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      out[i] = first + i <= last ? WidenInput(codes, row, first + i) : 0.f;
    return;
  }
  const ScaleAndOffset group = LoadScale(codes, row, first / codes.group_size);
  const EightCodes eight = LoadEightCodes(codes, row, first);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const unsigned code = CodeOfEight(codes.type, eight.words, i);
    out[i] = first + i <= last ? WidenCode(codes.type, code) * group.scale + group.offset : 0.f;
  }
}

}  // namespace outrider
