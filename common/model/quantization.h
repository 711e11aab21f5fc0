// How a checkpoint's matrices are quantized, as "quantization_config" of its config.json says.
#pragma once

#include "common/base/status.h"
#include "common/json/json.h"

namespace outrider {

// Both are compressed-tensors' format "int-quantized": matrix "X.weight" holds 8-bit integers
// [out, in], "X.weight_scale" [out, 1] what one of them is worth. Matrices without scales are
// floats. kW8A8: activations are rounded too, each row to 8-bit integers of a scale of its own.
// https://github.com/vllm-project/compressed-tensors
enum class Quantization { kNone, kW8A16, kW8A8 };

// `field` may be null. kUnimplemented names the method, or the option of it, that is not supported.
Result<Quantization> ReadQuantization(const JsonValue& field);

}  // namespace outrider
