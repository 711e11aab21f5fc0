// A quantized weight matrix on the device, kept as codes.
//
// Thread: the backend's owner.
#pragma once

#include <cstddef>
#include <memory>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/codes.h"
#include "common/base/status.h"
#include "common/tensor/quantized_matrix.h"

namespace outrider {

class CudaCodes {
 public:
  // kResourceExhausted when out of memory. REQUIRES: a row of codes or scales fits into
  // StagedCopy::kPieceBytes.
  static Result<std::unique_ptr<CudaCodes>> Upload(const QuantizedMatrix& matrix,
                                                   StagedCopy* staging);

  const DeviceCodes& view() const { return view_; }
  size_t bytes() const { return bytes_; }

 private:
  CudaCodes() = default;
  // Copies `rows` rows of `row_bytes`, which fill(host, first row, rows) produces.
  template <class F>
  Result<const void*> Copy(size_t rows, size_t row_bytes, StagedCopy* staging, const F& fill);

  DeviceCodes view_;
  std::unique_ptr<CudaBuffer> buffers_[4];
  int next_ = 0;  // index of the next buffer
  size_t bytes_ = 0;
};

}  // namespace outrider
