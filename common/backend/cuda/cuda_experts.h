// The experts of a mixture on the device: their matrices, and a table of them for kernels.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/backend/cuda/cuda_matrix.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/expert_product.h"
#include "common/backend/experts.h"
#include "common/base/status.h"

namespace outrider {

class CudaExperts final : public ExpertMatrices {
 public:
  // kResourceExhausted when out of memory. REQUIRES: every matrix is a CudaMatrix, as in
  // Backend::GroupExperts.
  static Result<std::unique_ptr<CudaExperts>> Create(
      std::vector<std::unique_ptr<PackedMatrix>> matrices, StagedCopy* staging);

  int stride() const { return stride_; }
  // Whether LaunchTensorExpertProduct takes them.
  bool on_tensor_cores() const { return on_tensor_cores_; }
  const DeviceExpert& any() const { return any_; }
  // Everything of a product but its bias and its result.
  ExpertProductCall call() const {
    return {.experts = static_cast<const DeviceExpert*>(table_->data()),
            .dtype = dtype_,
            .in_features = in_features(),
            .out_features = out_features(),
            .stride = stride_};
  }

 private:
  CudaExperts(std::vector<std::unique_ptr<PackedMatrix>> matrices,
              std::unique_ptr<CudaBuffer> table, const DeviceExpert& any, Dtype dtype, int stride,
              bool on_tensor_cores)
      : ExpertMatrices(std::move(matrices)),
        table_(std::move(table)),
        any_(any),
        dtype_(dtype),
        stride_(stride),
        on_tensor_cores_(on_tensor_cores) {}

  const std::unique_ptr<CudaBuffer> table_;  // [experts] DeviceExpert
  const DeviceExpert any_;                   // one of them
  const Dtype dtype_;                        // of every matrix
  const int stride_;
  const bool on_tensor_cores_;
};

}  // namespace outrider
