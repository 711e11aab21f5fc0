// The CUDA backend: every op is enqueued on one stream, and nothing but Wait() (and a batch larger
// than any before it) waits for the device. docs/gpu.md says what it promises.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/backend/backend.h"
#include "common/backend/cuda/large_product.h"

namespace outrider {

struct CudaBackendSettings {
  bool graphs = true;  // for passes that come again
  // Hears once, in words, when something does not work that the backend can do without.
  std::function<void(const std::string&)> warn;
};

// On device `device`. REQUIRES: UseCudaDevice(device) went well (cuda_device.h). Without `product`
// all rows go through the backend's own kernel.
Result<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                   std::unique_ptr<LargeProduct> product,
                                                   CudaBackendSettings settings);

}  // namespace outrider
