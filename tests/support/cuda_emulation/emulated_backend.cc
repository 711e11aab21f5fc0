#include "tests/support/cuda_emulation/emulated_backend.h"

#include <utility>

#include "common/backend/cuda/cuda_device.h"

namespace outrider {

Result<std::unique_ptr<Backend>> CreateEmulatedCudaBackend(CudaBackendSettings settings,
                                                           std::unique_ptr<LargeProduct> product) {
  OUTRIDER_TRY(UseCudaDevice(0));
  return CreateCudaBackend(0, std::move(product), std::move(settings));
}

}  // namespace outrider
