// Writes matrices of test checkpoints in the layouts of quantized checkpoints.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/base/status.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {

// How a test checkpoint stores the layers' matrices.
enum class StoredAs {
  kFloats,
  kInt8Rows,      // compressed-tensors "int-quantized", W8A16
  kFp8Tensor,     // compressed-tensors "float-quantized", one scale
  kFp8Channel,    // the same with one scale per output
  kFp8Block,      // "fp8" with blocks of kQuantizedGroup by kQuantizedGroup
  kFp8Block128,   // the same with blocks of 128 by 128, as published
  kPacked4,       // compressed-tensors "pack-quantized", 4 bits in groups
  kPacked4Zeros,  // with zero points
  kPacked4Order,  // with zero points and an order of the inputs
  kPacked8,       // 8 bits, one scale per output
  kGptq,          // 4 bits, zero points stored minus one
  kGptqOrder,     // format "gptq_v2", with act-order
  kGptq8,         // 8 bits
  kAwq,
  kMxfp4,  // only for stacked experts
};

// "int8", "fp8", "fp8-channel", "fp8-block", "packed4", "packed8", "gptq", "gptq-order", "awq" or
// "mxfp4".
Result<StoredAs> ParseStoredAs(const std::string& name);

constexpr int kQuantizedGroup = 32;  // inputs

nlohmann::json QuantizationConfig(StoredAs stored);

// The tensors of stacked experts [experts, inputs, outputs], rounded to 4-bit floats in blocks of
// 32 inputs. REQUIRES: inputs are a multiple of a block.
std::map<std::string, StoredTensor> Mxfp4TensorsOf(const std::string& name,
                                                   std::span<const float> values,
                                                   std::span<const int64_t> shape);

// The tensors of the matrix "X.weight" [rows, columns], rounded; `base` is "X.". REQUIRES: not
// kFloats or kMxfp4; sides are multiples of the layout's words.
std::map<std::string, StoredTensor> QuantizedTensorsOf(StoredAs stored, const std::string& base,
                                                       std::span<const float> values, int64_t rows,
                                                       int64_t columns);

}  // namespace outrider
