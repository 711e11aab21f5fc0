// Attention on tensor cores for tiles of few queries; launched by attention_mma.h.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

// Raises the kernels' limits of shared memory. T: Bf16 or F16.
template <class T>
cudaError_t PrepareAttentionFew();

// REQUIRES: as LaunchAttentionMma, tiles of up to kMmaQueries.
template <class T>
cudaError_t LaunchAttentionFew(const AttentionCall& call, const T* keys, const T* values, int units,
                               cudaStream_t stream);

}  // namespace outrider
