// Attention on tensor cores, for caches in 16 bits and FP8 and head sizes that are multiples of 16.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

inline bool RunsOnTensorCores(const AttentionShape& shape, KvType kv) {
  switch (kv) {
    case KvType::kF32: return false;
    case KvType::kF16:
    case KvType::kBf16:
    case KvType::kFp8: return shape.head_dim % 16 == 0;
  }
  return false;
}

// Queries per warp, and warps per block.
constexpr int kMmaQueries = 16;
constexpr int kMmaWarps = 4;

// Raises the kernels' limits of shared memory.
cudaError_t PrepareAttentionMma();

// Runs the units of a plan; merging their partial results is up to the caller. REQUIRES:
// RunsOnTensorCores, head_dim at most 256, tiles of up to kMmaQueries * kMmaWarps.
cudaError_t LaunchAttentionMma(const AttentionCall& call, const KvLayer& kv, int units,
                               int tile_queries, cudaStream_t stream);

}  // namespace outrider
