// One projection of all experts of a mixture, for checkpoints that store it as one tensor
// (gpt-oss): as floats, input-major, or as MXFP4 codes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/safetensors.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

struct StackedShape {
  int experts = 0;
  int64_t rows = 0;     // outputs of an expert
  int64_t columns = 0;  // inputs
  // Rows of gate and up alternate in the checkpoint; the result has all gates first.
  bool interleaved = false;
};

// The checkpoint's row that becomes row `row` of an expert's matrix.
int64_t StackedRow(const StackedShape& shape, int64_t row);

class StackedExperts {
 public:
  // Finds the tensor `name` [experts, columns, rows], or `name`_blocks [experts, rows, columns /
  // 32, 16] of bytes with two codes each, the first in the low half, and `name`_scales [experts,
  // rows, columns / 32] (OCP Microscaling Formats 1.0, MXFP4). kInvalidArgument for a tensor that
  // is missing or has another type or shape, kDataLoss for a scale that is NaN. Float values must
  // be checked by the caller.
  static Result<StackedExperts> Find(const Checkpoint& checkpoint, const std::string& name,
                                     const StackedShape& shape);

  bool has_codes() const { return blocks_ != nullptr; }
  // REQUIRES: has_codes() is false.
  const TensorView& view() const { return view_; }
  std::vector<float> Floats(int expert) const;  // [rows, columns]
  // An expert's codes, kFp4E2M1.
  QuantizedMatrix Codes(int expert) const;
  // Size of the tensors.
  int64_t bytes() const;
  // Called when the values are no longer needed, so that their part of the file can leave memory.
  void DropPages() const;

 private:
  explicit StackedExperts(const StackedShape& shape) : shape_(shape) {}

  StackedShape shape_;
  TensorView view_;
  const SafetensorsEntry* blocks_ = nullptr;
  const SafetensorsEntry* scales_ = nullptr;
};

}  // namespace outrider
