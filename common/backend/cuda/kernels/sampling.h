// Launcher of the kernels that turn rows of logits into what rounds are decided by.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/rounds.h"

namespace outrider {

// One block a row. Rows of sampling rules become what MakeDistribution makes of them: the same
// tokens above 0, each within 2e-6 of its probability (sums and exponentials round otherwise);
// where two tokens at a cut have probabilities that differ in their last bit alone, the other one
// may stay. Else `matches` is written, MostLikely or the first of RaceOrder, and the row is left
// with penalties and bias applied. A row's bits depend on that row alone.
cudaError_t LaunchSampleRows(const DeviceRoundArrays& arrays, cudaStream_t stream);

}  // namespace outrider
