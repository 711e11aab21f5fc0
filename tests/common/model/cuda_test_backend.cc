#include "tests/common/model/model_testing.h"
#include "tests/support/cuda_emulation/emulated_backend.h"

namespace outrider {

Result<std::unique_ptr<Backend>> CreateTestBackend() { return CreateEmulatedCudaBackend(); }

// Activations keep 8 bits at each product (2^-9 relative per element); random signs mostly cancel
// these errors.
double Bf16WeightsTolerance() { return 2e-2; }

}  // namespace outrider
