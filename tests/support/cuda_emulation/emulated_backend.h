// The CUDA backend's own sources on the host: everything except cublasLt.
#pragma once

#include <memory>

#include "common/backend/backend.h"
#include "common/backend/cuda/cuda_backend.h"
#include "common/base/status.h"

namespace outrider {

// Products use the backend's own kernels, except those of many rows that `product` accepts.
Result<std::unique_ptr<Backend>> CreateEmulatedCudaBackend(
    CudaBackendSettings settings = {}, std::unique_ptr<LargeProduct> product = nullptr);

}  // namespace outrider
