// Splits one call of PagedAttention into independent units. A unit is up to 16 queries (row, head)
// of one sequence that share a KV head, so that each key or value is read once for all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/backend/cpu/kernels.h"

namespace outrider {

// Positions per step of the online softmax: the keys and values of one tile (32 KB at head_dim 64)
// stay in the innermost caches while the queries of the unit use them.
constexpr int kTile = 64;
constexpr int kMaxQueries = 16;

// Tokens from the last tile boundary before a tree to its end, rounded up to whole vectors.
constexpr size_t TailStride(int rows) { return (static_cast<size_t>(kTile) + rows + 15) / 16 * 16; }

// Unit `index` of a call, with its working memory in `scratch`.
struct AttentionUnit {
  AttentionUnit(const Attention& attention, int index, float* scratch);

  // Sets values[0, count) to point at the values of tokens first, first + 1, ... of the sequence.
  template <class T>
  void ValuesOf(int first, int count, const T** values_of) const {
    while (count > 0) {
      // Page by page: a division per token would cost as much as its product.
      const T* value = static_cast<const T*>(values) + Place(first).value;
      const int run = std::min(count, page_tokens - first % page_tokens);
      for (int i = 0; i < run; ++i) values_of[i] = value + i * head_dim;
      values_of += run;
      first += run;
      count -= run;
    }
  }
  KvPlace Place(int token) const {
    const int32_t page = pages[token / page_tokens];
    return KvPlace(*shape, page * static_cast<int32_t>(page_tokens) + token % page_tokens, kv_head);
  }

  const AttentionShape* shape;
  size_t head_dim;
  int page_tokens;
  float scale;        // a score is this times q.k of the widened keys
  float value_scale;  // factor of the widened values
  const void* keys;
  const void* values;

  int rows;     // of the sequence
  int context;  // tokens before them
  const int32_t* pages;
  const int32_t* parents;  // nullptr for a chain
  int kv_head;
  int queries;
  int row[kMaxQueries];  // of each query, within the sequence's rows
  const float* q[kMaxQueries];
  float* out[kMaxQueries];
  float sink[kMaxQueries];  // AttentionShape::sinks of the query's head; -infinity: none
  // Query i sees the positions [first_position[i], end_position[i]).
  int first_position[kMaxQueries];
  int end_position[kMaxQueries];

  float* scores;       // [kMaxQueries, kTile]
  float* sums;         // [kMaxQueries, head_dim] weighted sum of values so far
  float* max;          // [kMaxQueries] largest score so far
  float* sum;          // [kMaxQueries] sum of weights so far
  float* tail_scores;  // trees: [kMaxQueries, TailStride(rows)]
  int32_t* path;       // trees: [rows]
};

}  // namespace outrider
