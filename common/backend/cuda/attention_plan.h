// How one pass of paged attention is split into blocks of work. Pure: host arrays in, lists out.
//
// A query is one head of one row. The query heads that share a KV head and are in neighbouring rows
// form a tile, as large as the kernel allows, so that each key is read once for all of them.
// Positions are split into chunks at multiples of kAttentionChunk, whatever the batch. A unit is
// one tile over some consecutive chunks. If a tile has several units, the first one sums its chunks
// in the order of positions and writes the sum, every other one writes the results of its chunks
// one by one, and a merge adds all of them up in the same order; a tile with a single unit needs no
// merge. A query's chunks and the order of its sums depend on its position alone, so the bits of a
// row do not depend on how the work was split or on the rest of the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/backend/batch_layout.h"

namespace outrider {

constexpr int kAttentionChunk = 256;  // positions

// A unit: chunks [chunk_begin, chunk_end) of the tile of queries [first_query, first_query +
// queries) of a sequence, counted row by row, with `group` (query heads per KV head) queries per
// row.
struct AttentionPlanUnit {
  int32_t sequence = 0;
  int32_t first_query = 0;
  int32_t queries = 0;
  int32_t chunk_begin = 0;
  int32_t chunk_end = 0;
  int32_t begin = 0, end = 0;  // positions that at least one query of the tile sees
  // First result of the tile's first query; -1: the unit writes the output itself.
  int32_t partial = -1;
  // 1 for the first unit of its tile, which writes one result for all its chunks, not one per
  // chunk.
  int32_t is_first = 1;
  int32_t pass_begin = 0, pass_end = 0;  // range in the plan's passes
};

// Adds up `results` results of each query; the queries of a result are adjacent.
struct AttentionMerge {
  int32_t sequence = 0;
  int32_t first_query = 0;
  int32_t queries = 0;
  int32_t partial = 0;
  int32_t results = 0;
};

struct AttentionPlan {
  std::vector<AttentionPlanUnit> units;
  std::vector<AttentionMerge> merges;
  int partials = 0;      // results per query that are merged
  int tile_queries = 0;  // in the largest tile

  // For each row of a sequence that is not a chain, its path from the root to itself, as rows
  // within the sequence: paths[path_begin[row]]... Empty when all sequences are chains.
  std::vector<int32_t> path_begin;  // [rows]
  std::vector<int32_t> paths;
  std::vector<int32_t> is_tree;  // [sequences]
  // For each tile of such a sequence, rows of the batch whose paths contain all rows of the tile.
  std::vector<int32_t> passes;
};

struct AttentionLimits {
  int blocks = 1;        // enough to keep the device busy
  int max_partials = 0;  // results per query that there is memory for
  int tile_queries = 1;
  int few_queries = 0;  // in tiles of the kernel for few; for graphs
};

// Bytes of one result of a query, over all KV heads.
inline int64_t PartialBytes(const AttentionShape& shape) {
  return int64_t{shape.num_kv_heads} * (shape.head_dim + 2) * static_cast<int64_t>(sizeof(float));
}

// Overwrites `plan`, whose arrays keep their capacity. Splits longer contexts into more units,
// until there are about limits.blocks of equal size.
void PlanAttention(const BatchLayout& batch, const AttentionShape& shape,
                   const AttentionLimits& limits, AttentionPlan* plan);

}  // namespace outrider
