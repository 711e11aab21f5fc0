// The types in which weights are stored and kept: which of them lose precision, and which values
// they can hold.
#pragma once

#include <string>

#include "common/backend/packed_matrix.h"
#include "common/base/status.h"
#include "common/tensor/quantized_matrix.h"
#include "common/tensor/tensor.h"

namespace outrider {

// Whether the type is f32, f16 or bf16.
bool IsFloats(WeightType type);

// Whether values of type `stored` may lose precision when they are kept as `kept`.
bool LosesPrecision(Dtype stored, WeightType kept);

// The type in which a checkpoint's codes are kept, given `asked`, the value of --weights, and
// whether the checkpoint wants its activations rounded to 8 bits.
WeightType KeptTypeOfCodes(const QuantizedMatrix& matrix, WeightType asked,
                           bool rounds_activations);

// kDataLoss for a value that is NaN or infinite, kInvalidArgument for one that `kept` cannot hold.
// The message names the tensor, `name`, and the element.
Status CheckFits(const std::string& name, const TensorView& view, WeightType kept);

}  // namespace outrider
