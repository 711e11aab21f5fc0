// Launcher of the verification rules over rows that LaunchSampleRows has prepared.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/rounds.h"

namespace outrider {

// One block a round, after LaunchSampleRows: the rules of common/rules, run by a warp, with the
// coins that the host would use on the same rows. Only the next token's draw is the GPU's own: it
// differs from the host's where a coin is within rounding of its threshold. Writes the acceptance
// of every draft node of sampling rules. Rows are left as they were.
cudaError_t LaunchRules(const DeviceRoundArrays& arrays, cudaStream_t stream);

}  // namespace outrider
