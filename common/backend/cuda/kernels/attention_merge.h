// Combines the partial results that the blocks of one tile of attention write.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

cudaError_t PrepareAttentionMerge();

// Writes the output of every query of the merges, of at most `tile_queries` queries each,
// bit-identical to that of a block that has all chunks. There are blocks for the queries of
// `merges` merges. `value_scale` is the cache's.
cudaError_t LaunchAttentionMerge(const AttentionCall& call, float value_scale, int merges,
                                 int tile_queries, cudaStream_t stream);

}  // namespace outrider
