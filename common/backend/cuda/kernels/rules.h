// Launcher of the verification rules over warped rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/rounds.h"

namespace outrider {

// Bytes that a round works in.
int64_t RuleScratchBytes(const BatchedRound& round);

// One block a session, behind LaunchWarpRows: the verdict that the rule's own source gives
// (common/rules) with the same coins on the same rows, but for coins within rounding of their
// threshold; and the acceptance of every drafted node. Rows are left as they were.
cudaError_t LaunchRules(const RoundArrays& arrays, cudaStream_t stream);

}  // namespace outrider
