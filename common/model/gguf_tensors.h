// The values of a GGUF file's tensors, with the rows in a checkpoint's order.
//
// Thread: any.
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/status.h"
#include "common/model/architectures/gguf_config.h"
#include "common/tensor/quantized_matrix.h"
#include "common/tensor/tensor.h"

namespace outrider {

// kInvalidArgument when interleaved rows do not divide into heads of an even size.
Status CheckRows(const GgufEntry& entry);

// Whether the file's bytes are the values as they are: floats in the checkpoint's order.
bool IsPlain(const GgufEntry& entry);
// Whether the blocks are codes that a product can read: Q8_0 and Q4_0.
bool HasCodes(const GgufEntry& entry);

// Floats keep their type; blocks become `blocks_as`, kF32 or kBf16.
// REQUIRES: CheckRows.
struct WidenedTensor {
  Dtype dtype = Dtype::kF32;
  std::vector<std::byte> bytes;
};
WidenedTensor Widen(const GgufEntry& entry, Dtype blocks_as);

// Appends the rows of a matrix of codes below those of `matrix`, which holds the same type.
// kDataLoss for a scale that is NaN or infinite.
// REQUIRES: CheckRows, HasCodes.
Status AppendCodes(const GgufEntry& entry, QuantizedMatrix* matrix);

}  // namespace outrider
