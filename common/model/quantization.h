// How a checkpoint's matrices are quantized, as "quantization_config" of its config.json says.
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
    kGguf,      // a GGUF file, whose tensors have a type each
    kMxfp4,     // gpt-oss: stacked experts alone, which stacked_experts.h reads
  };

  Layout layout = Layout::kNone;
  int bits = 8;
  int group_size = 0;  // inputs that share a scale; 0: all of a row
  // Of kFp8: outputs and inputs that share a scale. 0: one scale for the matrix, or one an output,
  // as the shape of the scales says.
  int block_rows = 0;
  int block_columns = 0;
  bool has_zeros = false;  // of kPacked: codes have zero points
  bool has_order = false;  // of kPacked and kGptq: inputs name their group (act-order)
  // Of kGptq: a zero point is stored less one, as its first version did.
  bool stores_zeros_less_one = false;
  // Activations are rounded to 8-bit integers, each row with a scale of its own. Where a checkpoint
  // asks for FP8 activations they stay floats, which is more exact than what it asks for.
  bool rounds_activations = false;
  // Whether each layer has scales for an FP8 cache (kv_scales.h). A cache of floats, which is more
  // exact than what such a checkpoint asks for, has no use for them.
  bool has_kv_scales = false;
};

// `field` may be null. kUnimplemented names the method, or the option of it, that is not supported.
Result<Quantization> ReadQuantization(const JsonValue& field);

}  // namespace outrider
