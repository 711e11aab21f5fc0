// The CUDA backend: every op is enqueued on one stream, and nothing but Wait() (and a batch larger
// than any before it) waits for the device. docs/gpu.md says what it promises.
#pragma once

#include <memory>

#include "common/backend/backend.h"
#include "common/backend/cuda/large_product.h"

namespace outrider {

// On device `device`. REQUIRES: UseCudaDevice(device) went well (cuda_device.h). Without `product`
// all rows go through the backend's own kernel.
Result<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                   std::unique_ptr<LargeProduct> product);

}  // namespace outrider
