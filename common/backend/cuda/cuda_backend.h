// The CUDA backend: every op is enqueued on one stream, and nothing but Wait() (and a batch larger
// than any before it) waits for the device. docs/gpu.md says what it promises.
#pragma once

#include <memory>

#include "common/backend/backend.h"
#include "common/backend/cuda/large_product.h"

namespace outrider {

// On device `device`. kNotFound when there is no such device, with how many there are;
// kFailedPrecondition for one below compute capability 8.0 or a driver that does not work.
Status UseCudaDevice(int device);

// REQUIRES: UseCudaDevice(device) went well. Without `product` all rows go through the backend's
// own kernel.
Result<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                   std::unique_ptr<LargeProduct> product);

}  // namespace outrider
