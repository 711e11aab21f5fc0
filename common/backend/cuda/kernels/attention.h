// The kernels of PagedAttention; attention_plan.h describes how their work is split.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/batch_layout.h"
#include "common/backend/cuda/attention_plan.h"
#include "common/backend/cuda/kernels/rows.h"

namespace outrider {

// All pointers are device memory.
struct AttentionCall {
  // Those of BatchLayout.
  const int32_t* positions = nullptr;   // [rows]
  const int32_t* row_begin = nullptr;   // [sequences + 1]
  const int32_t* context = nullptr;     // [sequences]
  const int32_t* page_begin = nullptr;  // [sequences + 1] into pages
  const int32_t* pages = nullptr;
  // Those of AttentionPlan.
  const int32_t* is_tree = nullptr;     // [sequences]
  const int32_t* path_begin = nullptr;  // [rows] into paths; not read when no sequence is a tree
  const int32_t* paths = nullptr;
  const int32_t* passes = nullptr;
  const AttentionPlanUnit* units = nullptr;  // [units]
  const AttentionMerge* merges = nullptr;    // [merges]
  // The number of units and of merges; null if the launch has exactly as many.
  const int32_t* counts = nullptr;
  const float* qkv = nullptr;  // [rows, (num_heads + 2 * num_kv_heads) * head_dim], rotated
  float* partials = nullptr;   // PartialBytes() for each of the plan's partials
  float* out = nullptr;        // [rows, num_heads * head_dim]; null: only `rounded` is written
  RoundedRows rounded;
  AttentionShape shape;
};

// The largest tile, in queries, of the kernel for such heads and such a cache.
int AttentionTileQueries(const AttentionShape& shape, KvType kv);

// The largest tile of the kernel for few queries, where there is one of its own.
int AttentionFewQueries(const AttentionShape& shape, KvType kv);

// Must be called once per device, before the first LaunchPagedAttention. Loads the kernels that no
// warm-up pass may run, since a capture must not load any.
cudaError_t PrepareAttention();

// `units` blocks per KV head take the call's units in turns. For its merges there is a block for
// each query of `merges` of them; 0: it has none. `tile_queries` is at least the plan's.
// REQUIRES: head_dim is a multiple of 8 and at most 256.
cudaError_t LaunchPagedAttention(const AttentionCall& call, const KvLayer& kv, int units,
                                 int merges, int tile_queries, cudaStream_t stream);

}  // namespace outrider
