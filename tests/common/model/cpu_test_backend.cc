#include "common/backend/cpu/cpu_backend.h"
#include "tests/common/model/model_testing.h"

namespace outrider {

Result<std::unique_ptr<Backend>> CreateTestBackend() { return CreateCpuBackend({}); }

// Activations stay in float.
double Bf16WeightsTolerance() { return 1e-4; }

}  // namespace outrider
