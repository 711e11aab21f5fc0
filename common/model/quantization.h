// How a checkpoint's matrices are quantized, according to "quantization_config" in config.json.
// quantized_tensors.h reads the tensors.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"

namespace outrider {

struct Quantization {
  enum class Layout {
    kNone,
    kInt8Rows,  // compressed-tensors "int-quantized"
    kPacked,    // compressed-tensors "pack-quantized"
    kFp8,       // compressed-tensors "float-quantized", and "fp8" of DeepSeek, Qwen and vLLM
    kGptq,      // AutoGPTQ and GPTQModel
    kAwq,       // AutoAWQ, version "gemm"
    kGguf,      // a GGUF file, in which each tensor has its own type
    kMxfp4,     // gpt-oss: only for stacked experts, which stacked_experts.h reads
  };

  Layout layout = Layout::kNone;
  int bits = 8;
  int group_size = 0;  // inputs that share a scale; 0: the whole row
  // For kFp8: outputs and inputs that share a scale. 0: one scale for the matrix, or one per
  // output, depending on the shape of the scales.
  int block_rows = 0;
  int block_columns = 0;
  bool has_zeros = false;  // for kPacked: codes have zero points
  bool has_order = false;  // for kPacked and kGptq: inputs name their group (act-order)
  // For kGptq: zero points are stored minus one, as in the format's first version.
  bool stores_zeros_less_one = false;
  // Activations are rounded to 8-bit integers, with one scale per row. If a checkpoint specifies
  // FP8 activations they stay floats, which is more exact.
  bool rounds_activations = false;
  // Whether each layer has scales for an FP8 cache (kv_scales.h). A cache of floats, which is more
  // exact than such a checkpoint requires, ignores them.
  bool has_kv_scales = false;
};

// `field` may be null. kUnimplemented names the unsupported method or option.
Result<Quantization> ReadQuantization(const JsonValue& field);

}  // namespace outrider
