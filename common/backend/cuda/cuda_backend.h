// The CUDA backend: every op is enqueued on one stream, and only Wait() (and a batch larger than
// any before it) waits for the device. docs/gpu.md states its guarantees.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/backend/backend.h"
#include "common/backend/cuda/large_product.h"

namespace outrider {

struct CudaBackendSettings {
  bool graphs = true;                 // for repeated passes
  bool fp8_activations = false;       // in products with FP8 weights (MatrixProducts)
  std::string nccl = "libnccl.so.2";  // the library for groups of devices, as dlopen takes it
  // Called once, with a message, when an optional feature does not work.
  std::function<void(const std::string&)> warn;
};

// Creates a backend on device `device`. REQUIRES: UseCudaDevice(device) succeeded (cuda_device.h).
// Without `product`, all rows go through the backend's own kernel.
Result<std::unique_ptr<Backend>> CreateCudaBackend(int device,
                                                   std::unique_ptr<LargeProduct> product,
                                                   CudaBackendSettings settings);

}  // namespace outrider
