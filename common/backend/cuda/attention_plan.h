// How one pass of paged attention is cut into blocks of work. Pure: host arrays in, lists out.
//
// A query is one head of one row; the query heads that share a KV head and stand in neighbouring
// rows form a tile, as large as the kernel takes, so that a key is read once for all of them.
// Positions are cut into chunks at multiples of kAttentionChunk, whatever the batch. A unit is one
// tile over some neighbouring chunks. If a tile has several units, the first adds up its chunks in
// the order of positions and writes the sum, each other one writes its chunks' results one by one,
// and a merge adds all of them up in the same order; a tile that has one unit needs no merge.
// A query's chunks and the order of its sums depend on its position alone, so the bits of a row do
// not show how the work was cut or what else was in the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/backend/batch_layout.h"

namespace outrider {

constexpr int kAttentionChunk = 256;  // positions

// Tile: queries [first_query, first_query + queries) of a sequence, counted row by row, `group`
// (query heads of a KV head) to a row.
struct AttentionTile {
  int32_t sequence = 0;
  int32_t first_query = 0;
  int32_t queries = 0;
  int32_t chunk_begin = 0;
  int32_t chunk_end = 0;
  int32_t begin = 0, end = 0;  // positions that any of the tile's queries sees
  int32_t partial = -1;        // its first result of its first query; -1: writes the output itself
  int32_t is_first = 1;        // of its tile: one result of all its chunks, not one of each
  int32_t pass_begin = 0, pass_end = 0;  // into the plan's passes
};

// Adds up `results` results of each query, the queries of a result side by side.
struct AttentionMerge {
  int32_t sequence = 0;
  int32_t first_query = 0;
  int32_t queries = 0;
  int32_t partial = 0;
  int32_t results = 0;
};

struct AttentionPlan {
  std::vector<AttentionTile> units;
  std::vector<AttentionMerge> merges;
  int partials = 0;      // results of a query that are merged
  int tile_queries = 0;  // of the largest tile

  // Of each row of a sequence that is no chain, its path from the root to itself, as rows of the
  // sequence's share: paths[path_begin[row]]... Empty when all are chains.
  std::vector<int32_t> path_begin;  // [rows]
  std::vector<int32_t> paths;
  std::vector<int32_t> is_tree;  // [sequences]
  // Of each tile of such a sequence, rows of the batch whose paths hold all rows of the tile.
  std::vector<int32_t> passes;
};

struct AttentionLimits {
  int blocks = 1;        // as many as keep the device busy
  int max_partials = 0;  // results of a query that there is room for
  int tile_queries = 1;
};

// Bytes of one result of a query, of all KV heads.
inline int64_t PartialBytes(const AttentionShape& shape) {
  return int64_t{shape.num_kv_heads} * (shape.head_dim + 2) * static_cast<int64_t>(sizeof(float));
}

// Overwrites `plan`, whose arrays keep their capacity. Splits longer contexts into more units,
// until there are about limits.blocks of the same size.
void PlanAttention(const BatchLayout& batch, const AttentionShape& shape,
                   const AttentionLimits& limits, AttentionPlan* plan);

}  // namespace outrider
