// Launches the verification rules on rows that LaunchSampleRows has prepared.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/rounds.h"

namespace outrider {

// One block per round, after LaunchSampleRows: the rules of common/rules, run by a warp, with the
// uniform random numbers that the host would use on the same rows. Only the next token is sampled
// in the GPU's own way: it differs from the host's if its random number is within rounding of a
// threshold. Writes the acceptance of every draft node of sampling rules. Leaves the rows
// unchanged.
cudaError_t LaunchRules(const DeviceRoundArrays& arrays, cudaStream_t stream);

}  // namespace outrider
