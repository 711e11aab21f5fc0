#include "common/backend/cpu/attention_units.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace outrider {
namespace {

int QueryBlocks(int rows, int group) { return (rows * group + kMaxQueries - 1) / kMaxQueries; }

int Group(const AttentionShape& shape) { return shape.num_heads / shape.num_kv_heads; }

int Rows(const BatchLayout& batch, int sequence) {
  return batch.row_begin[sequence + 1] - batch.row_begin[sequence];
}

// nullptr when the rows are in fact a chain.
const int32_t* TreeParents(const BatchLayout& batch, int sequence) {
  if (batch.parents == nullptr) return nullptr;
  const int32_t* parents = batch.parents + batch.row_begin[sequence];
  for (int i = 0; i < Rows(batch, sequence); ++i) {
    if (parents[i] != i - 1) return parents;
  }
  return nullptr;
}

}  // namespace

int AttentionUnits(const BatchLayout& batch, const AttentionShape& shape) {
  int units = 0;
  for (int s = 0; s < batch.sequences; ++s) {
    units += shape.num_kv_heads * QueryBlocks(Rows(batch, s), Group(shape));
  }
  return units;
}

size_t AttentionScratchFloats(const BatchLayout& batch, const AttentionShape& shape) {
  int tree_rows = 0;
  if (batch.parents != nullptr) {
    for (int s = 0; s < batch.sequences; ++s) tree_rows = std::max(tree_rows, Rows(batch, s));
  }
  return kMaxQueries * (kTile + shape.head_dim + 2 + TailStride(tree_rows)) + tree_rows;
}

AttentionUnit::AttentionUnit(const Attention& attention, int index, float* scratch) {
  const BatchLayout& batch = *attention.batch;
  shape = &attention.shape;
  head_dim = shape->head_dim;
  page_tokens = shape->page_tokens;
  const int group = Group(*shape);
  const float unit = attention.kv.type == KvType::kFp8 ? kFp8Unit : 1.f;
  scale = unit * attention.kv.key_scale / std::sqrt(shape->ScoreScalar());
  value_scale = unit * attention.kv.value_scale;
  keys = attention.kv.keys;
  values = attention.kv.values;

  int sequence = 0;
  int blocks = QueryBlocks(Rows(batch, 0), group);
  while (index >= shape->num_kv_heads * blocks) {
    index -= shape->num_kv_heads * blocks;
    blocks = QueryBlocks(Rows(batch, ++sequence), group);
  }
  rows = Rows(batch, sequence);
  context = batch.context[sequence];
  pages = batch.pages + batch.page_begin[sequence];
  parents = TreeParents(batch, sequence);
  kv_head = index / blocks;
  const int first_query = index % blocks * kMaxQueries;
  queries = std::min(kMaxQueries, rows * group - first_query);

  const size_t q_width = (shape->num_heads + 2 * shape->num_kv_heads) * head_dim;
  const size_t out_width = shape->num_heads * head_dim;
  for (int i = 0; i < queries; ++i) {
    row[i] = (first_query + i) / group;
    const size_t head = kv_head * group + (first_query + i) % group;
    const size_t batch_row = batch.row_begin[sequence] + row[i];
    q[i] = attention.qkv + batch_row * q_width + head * head_dim;
    out[i] = attention.out + batch_row * out_width + head * head_dim;
    sink[i] =
        shape->sinks != nullptr ? shape->sinks[head] : -std::numeric_limits<float>::infinity();
    int seen = row[i] + 1;
    if (parents != nullptr) {
      seen = 0;
      for (int node = row[i]; node >= 0; node = parents[node]) ++seen;
    }
    end_position[i] = context + seen;
    first_position[i] =
        shape->sliding_window > 0 ? std::max(0, end_position[i] - shape->sliding_window) : 0;
  }

  scores = scratch;
  sums = scores + kMaxQueries * kTile;
  max = sums + kMaxQueries * head_dim;
  sum = max + kMaxQueries;
  tail_scores = sum + kMaxQueries;
  path = reinterpret_cast<int32_t*>(tail_scores + kMaxQueries * TailStride(rows));
}

}  // namespace outrider
