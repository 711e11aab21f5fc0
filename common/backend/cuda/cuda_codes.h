// A quantized weight matrix on the device, kept as codes in the layout of kernels/code_layout.h.
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
  // kResourceExhausted when out of memory. Rows and columns are padded: see bytes().
  static Result<std::unique_ptr<CudaCodes>> Upload(const QuantizedMatrix& matrix,
                                                   StagedCopy* staging);

  const DeviceCodes& view() const { return view_; }
  size_t bytes() const { return bytes_; }

 private:
  CudaCodes() = default;
  // Copies `units` of `unit_bytes`, which fill(host, first unit, units) produces.
  template <class F>
  Result<const void*> Copy(size_t units, size_t unit_bytes, StagedCopy* staging, const F& fill);
  // Copies a value of(index) for each scale of the matrix.
  template <class T, class Of>
  Result<const T*> CopyScales(const QuantizedMatrix& matrix, StagedCopy* staging, const Of& of);

  DeviceCodes view_;
  std::unique_ptr<CudaBuffer> buffers_[4];
  int next_ = 0;  // index of the next buffer
  size_t bytes_ = 0;
};

}  // namespace outrider
