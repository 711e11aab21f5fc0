// Creates a backend from the name of its device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/backend/backend.h"
#include "common/backend/cpu/cpu_backend.h"
#include "common/base/status.h"

namespace outrider {

struct CudaBackendOptions {
  bool graphs = true;            // a repeated pass becomes one launch (docs/gpu_kernels.md)
  bool fp8_activations = false;  // in products with FP8 weights (docs/quantization.md)
};

// "cpu", or "cuda:N" for the N-th CUDA device, whose backend is a shared library next to the
// program or in the library directory. `cpu` applies only to "cpu", `cuda` to the others.
// kInvalidArgument: any other name. kNotFound: no such library or device. kFailedPrecondition: the
// library is of another build, there is no driver, or the device is too old. kResourceExhausted:
// out of memory.
Result<std::unique_ptr<Backend>> CreateBackend(const std::string& device,
                                               const CpuBackendOptions& cpu,
                                               const CudaBackendOptions& cuda = {});

// The N of "cuda:N"; nullopt: any other name.
std::optional<int> CudaDeviceOf(std::string_view device);

// Whether `device` is one that CreateBackend understands.
Status CheckDeviceName(const std::string& device);

}  // namespace outrider
