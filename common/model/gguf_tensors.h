// Reads the values of a GGUF file's tensors, with rows in the order of a Hugging Face checkpoint.
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

// Whether the file's bytes can be used as they are: floats in the checkpoint's order.
bool IsPlain(const GgufEntry& entry);
// Whether the tensor has blocks of codes, and not floats.
bool HasCodes(const GgufEntry& entry);

// Widens a tensor: floats keep their type; blocks become `blocks_as`, kF32 or kBf16.
// REQUIRES: CheckRows.
struct WidenedTensor {
  Dtype dtype = Dtype::kF32;
  std::vector<std::byte> bytes;
};
WidenedTensor Widen(const GgufEntry& entry, Dtype blocks_as);

// Appends the rows of a matrix of codes below the rows of `matrix`, which has the same type.
// kDataLoss for a scale that is NaN or infinite.
// REQUIRES: CheckRows, HasCodes.
Status AppendCodes(const GgufEntry& entry, QuantizedMatrix* matrix);

}  // namespace outrider
