// Launcher of the kernels that warp logits rows, each by its session's parameters.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/rounds.h"

namespace outrider {

// One block a row. Rows of sampling rules become what Warper::Warp makes of them: the same tokens
// above 0, each within 2e-6 of its probability (sums and exponentials round otherwise); where two
// tokens at a cut have probabilities that differ in their last bit alone, the other one may stay.
// For kArgmax and kRace `matches` is written: Warper::Argmax and the first of Warper::Race; the row
// is left with penalties and bias applied. A row's bits depend on that row alone.
cudaError_t LaunchWarpRows(const RoundArrays& arrays, cudaStream_t stream);

}  // namespace outrider
