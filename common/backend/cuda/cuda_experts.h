// The experts of a mixture on the device: their matrices, and a table of them for kernels.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/backend/cuda/cuda_matrix.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/experts.h"
#include "common/backend/experts.h"
#include "common/base/status.h"

namespace outrider {

class CudaExperts final : public ExpertMatrices {
 public:
  // kResourceExhausted when out of memory. REQUIRES: every matrix is a CudaMatrix, as in
  // Backend::GroupExperts.
  static Result<std::unique_ptr<CudaExperts>> Create(
      std::vector<std::unique_ptr<PackedMatrix>> matrices, StagedCopy* staging);

  const DeviceExpert* table() const { return static_cast<const DeviceExpert*>(table_->data()); }
  // The type of every matrix.
  Dtype dtype() const { return dtype_; }
  int stride() const { return stride_; }

 private:
  CudaExperts(std::vector<std::unique_ptr<PackedMatrix>> matrices,
              std::unique_ptr<CudaBuffer> table, Dtype dtype, int stride)
      : ExpertMatrices(std::move(matrices)),
        table_(std::move(table)),
        dtype_(dtype),
        stride_(stride) {}

  const std::unique_ptr<CudaBuffer> table_;  // [experts] DeviceExpert
  const Dtype dtype_;
  const int stride_;
};

}  // namespace outrider
