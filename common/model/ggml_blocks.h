// The block formats of ggml, llama.cpp's tensor library, in which a GGUF file stores quantized
// tensors: codes with a scale, and in some formats an offset, for each group of elements. Source of
// the layouts: ggml's ggml-common.h and ggml-quants.c, https://github.com/ggml-org/ggml.
//
// Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/gguf/gguf_file.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

// How a block's values become those of a QuantizedMatrix.
struct GgmlCodes {
  CodeType type = CodeType::kInt8;
  int64_t group_size = 0;  // elements that share a scale, a divisor of the block's
  bool has_offsets = false;
  // The block's scales are multiples of one unit, and its offsets of another.
  bool has_units = false;
};
// nullopt for floats.
std::optional<GgmlCodes> CodesOf(GgmlType type);

// What a block has, as far as its format has it: codes, a byte each, the scale and the offset of
// each group, and the units. A value, which is code * scale + offset in float, is ggml's bit for
// bit, except for the sign of a zero.
struct GgmlBlock {
  std::array<uint8_t, 256> codes;
  std::array<float, 16> scales, offsets;
  float scale_unit, offset_unit;
};

// REQUIRES: CodesOf(type).
void UnpackCodes(GgmlType type, const std::byte* block, GgmlBlock* out);

// The values of out.size() / GgmlBlockElements(type) blocks, starting at `blocks`. REQUIRES:
// CodesOf(type).
void Dequantize(GgmlType type, const std::byte* blocks, std::span<float> out);

}  // namespace outrider
