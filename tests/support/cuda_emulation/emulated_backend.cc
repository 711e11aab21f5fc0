#include "tests/support/cuda_emulation/emulated_backend.h"

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/cuda_device.h"

namespace outrider {

Result<std::unique_ptr<Backend>> CreateEmulatedCudaBackend() {
  OUTRIDER_TRY(UseCudaDevice(0));
  return CreateCudaBackend(0, nullptr);
}

}  // namespace outrider
