// Attention on tensor cores for tiles of few queries; launched by attention_mma.h.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

// Raises the kernels' limits of shared memory. Stored: the cache's type, Bf16, F16 or Fp8.
template <class Stored>
cudaError_t PrepareAttentionFew();

// REQUIRES: as LaunchAttentionMma, tiles of up to kMmaQueries.
template <class Stored>
cudaError_t LaunchAttentionFew(const AttentionCall& call, const KvLayer& kv, int units,
                               cudaStream_t stream);

}  // namespace outrider
