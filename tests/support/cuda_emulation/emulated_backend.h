// The CUDA backend's own sources on the host: everything but cublasLt.
#pragma once

#include <memory>

#include "common/backend/backend.h"
#include "common/backend/cuda/cuda_backend.h"
#include "common/base/status.h"

namespace outrider {

// Products go through the backend's own kernels, but for those of many rows that `product` takes.
Result<std::unique_ptr<Backend>> CreateEmulatedCudaBackend(
    CudaBackendSettings settings = {}, std::unique_ptr<LargeProduct> product = nullptr);

}  // namespace outrider
