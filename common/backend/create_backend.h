// A backend by the name of its device.
#pragma once

#include <memory>
#include <string>

#include "common/backend/backend.h"
#include "common/backend/cpu/cpu_backend.h"
#include "common/base/status.h"

namespace outrider {

struct CudaBackendOptions {
  bool graphs = true;  // passes that come again become one launch (docs/gpu.md)
};

// "cpu", or "cuda:N" for the N-th CUDA device, whose backend is a file of its own, beside the
// program or in the libraries' folder. `cpu` counts for "cpu" alone, `cuda` for the others.
// kInvalidArgument: another name. kNotFound: the file is not there, or there is no such device.
// kFailedPrecondition: the file is of another build, no driver, or too old a device.
// kResourceExhausted: no memory.
Result<std::unique_ptr<Backend>> CreateBackend(const std::string& device,
                                               const CpuBackendOptions& cpu,
                                               const CudaBackendOptions& cuda = {});

// Whether `device` is one that CreateBackend understands.
Status CheckDeviceName(const std::string& device);

}  // namespace outrider
