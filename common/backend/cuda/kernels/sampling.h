// Launches the kernels that turn logits rows into the inputs of the verification rules.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/rounds.h"

namespace outrider {

// One block per row. Rows of sampling rules become what MakeDistribution makes of them: the same
// tokens above 0, each within 2e-6 of its probability (sums and exponentials round differently); if
// two tokens at a cut have probabilities that differ only in their last bit, the other one may be
// kept. For other rules `matches` is written, MostLikely or the first of RaceOrder, and the row is
// left with penalties and bias applied. A row's bits depend on that row alone.
cudaError_t LaunchSampleRows(const DeviceRoundArrays& arrays, cudaStream_t stream);

}  // namespace outrider
