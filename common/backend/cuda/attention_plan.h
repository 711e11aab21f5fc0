// How one pass of paged attention is cut into blocks of work. Pure: host arrays in, lists out.
//
// A query is one head of one row; the query heads that share a KV head and stand in neighbouring
// rows form a tile of up to kTileQueries, so that a key is read once for all of them. Positions are
// cut into chunks at multiples of kChunk, whatever the batch. A unit is one tile over some
// neighbouring chunks. If a tile has several units, each writes its chunks' partial results, and a
// merge adds them up in the order of positions; if it has one, that does the same by itself.
// A query's chunks and the order of its sums depend on its position alone, so the bits of a row do
// not show how the work was cut or what else was in the batch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/backend/backend.h"

namespace outrider {

constexpr int kAttentionChunk = 256;  // positions
constexpr int kAttentionTileQueries = 8;

// Tile: queries [first_query, first_query + queries) of a sequence, counted row by row, `group`
// (query heads of a KV head) to a row.
struct AttentionUnit {
  int32_t sequence = 0;
  int32_t first_query = 0;
  int32_t queries = 0;
  int32_t chunk_begin = 0;
  int32_t chunk_end = 0;
  int32_t partial = -1;  // where its first chunk's results go; -1: writes the output itself
};

struct AttentionMerge {
  int32_t sequence = 0;
  int32_t first_query = 0;
  int32_t queries = 0;
  int32_t partial = 0;
  int32_t chunks = 0;
};

struct AttentionPlan {
  std::vector<AttentionUnit> units;
  std::vector<AttentionMerge> merges;
  int partials = 0;
  int tile_queries = 0;  // of the largest tile

  // Of each row of a sequence that is no chain, its path from the root to itself, as rows of the
  // sequence's share: paths[path_begin[row]]... Empty when all are chains.
  std::vector<int32_t> path_begin;  // [rows]
  std::vector<int32_t> paths;
  std::vector<int32_t> is_tree;  // [sequences]
};

struct AttentionLimits {
  int blocks = 1;        // as many as keep the device busy
  int max_partials = 0;  // chunks that there is room for
};

// Bytes of one chunk's results, of all heads.
inline int64_t PartialBytes(const AttentionShape& shape) {
  return int64_t{shape.num_kv_heads} * kAttentionTileQueries * (shape.head_dim + 2) *
         static_cast<int64_t>(sizeof(float));
}

// Overwrites `plan`, whose arrays keep their capacity. Splits longer contexts into more units,
// until there are about limits.blocks of the same size.
void PlanAttention(const BatchLayout& batch, const AttentionShape& shape,
                   const AttentionLimits& limits, AttentionPlan* plan);

}  // namespace outrider
