// Adds up what the blocks of one tile of attention leave.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

// Writes the output of every query of `merges` merges, of at most `tile_queries` queries each. Bit
// for bit what a block that has all chunks writes. `value_scale`: the cache's.
cudaError_t LaunchAttentionMerge(const AttentionCall& call, float value_scale, int merges,
                                 int tile_queries, cudaStream_t stream);

}  // namespace outrider
