// The block formats of ggml, llama.cpp's tensor library, in which a GGUF file stores quantized
// tensors. Source of the layouts: ggml's ggml-common.h and ggml-quants.c,
// https://github.com/ggml-org/ggml.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/gguf/gguf_file.h"

namespace outrider {

// Dequantizes whole blocks: out.size() / GgmlBlockElements(type) of them, starting at `blocks`. The
// arithmetic is ggml's, in float, so the values are bit-identical to llama.cpp's.
void Dequantize(GgmlType type, const std::byte* blocks, std::span<float> out);

// The codes of one Q8_0 or Q4_0 block of 32, in the format of QuantizedMatrix (kInt8, kInt4), and
// its scale.
void UnpackCodes(GgmlType type, const std::byte* block, uint8_t* codes, float* scale);

}  // namespace outrider
