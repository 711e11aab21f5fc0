// The block formats of ggml, llama.cpp's tensor library: what a GGUF file's quantized tensors are
// made of. Source of the layouts: ggml's ggml-common.h and ggml-quants.c,
// https://github.com/ggml-org/ggml.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/gguf/gguf_file.h"

namespace outrider {

// The values of whole blocks: out.size() / GgmlBlockElements(type) of them from `blocks` on. The
// arithmetic is ggml's, in float, so the values are those of llama.cpp bit for bit.
void Dequantize(GgmlType type, const std::byte* blocks, std::span<float> out);

// The codes of one Q8_0 or Q4_0 block of 32 as QuantizedMatrix has them (kInt8, kInt4), and its
// scale.
void UnpackCodes(GgmlType type, const std::byte* block, uint8_t* codes, float* scale);

}  // namespace outrider
