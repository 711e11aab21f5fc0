#include "common/backend/cuda/attention_plan.h"

#include <algorithm>

namespace outrider {
namespace {

bool IsTree(const BatchLayout& batch, int sequence) {
  if (batch.parents == nullptr) return false;
  const int begin = batch.row_begin[sequence];
  for (int row = begin; row < batch.row_begin[sequence + 1]; ++row) {
    if (batch.parents[row] != row - begin - 1) return true;
  }
  return false;
}

void FindPaths(const BatchLayout& batch, AttentionPlan* plan) {
  plan->path_begin.clear();
  plan->paths.clear();
  plan->is_tree.clear();
  bool any = false;
  for (int s = 0; s < batch.sequences; ++s) {
    plan->is_tree.push_back(IsTree(batch, s) ? 1 : 0);
    any = any || plan->is_tree.back() != 0;
  }
  if (!any) return;
  plan->path_begin.resize(static_cast<size_t>(batch.rows));
  for (int s = 0; s < batch.sequences; ++s) {
    if (plan->is_tree[static_cast<size_t>(s)] == 0) continue;
    const int begin = batch.row_begin[s];
    for (int row = begin; row < batch.row_begin[s + 1]; ++row) {
      const size_t depth = static_cast<size_t>(batch.positions[row] - batch.context[s]) + 1;
      plan->path_begin[static_cast<size_t>(row)] = static_cast<int32_t>(plan->paths.size());
      plan->paths.resize(plan->paths.size() + depth);
      size_t next = plan->paths.size();
      for (int32_t node = row - begin; node >= 0; node = batch.parents[begin + node]) {
        plan->paths[--next] = node;
      }
    }
  }
}

// The rows without a descendant in [begin, end): their paths contain all the others.
void FindPasses(const BatchLayout& batch, int sequence, int begin, int end, AttentionPlan* plan) {
  const int first = batch.row_begin[sequence];
  std::vector<char> held(static_cast<size_t>(end - begin));
  for (int row = end - 1; row >= begin; --row) {
    if (held[static_cast<size_t>(row - begin)] != 0) continue;
    plan->passes.push_back(row);
    for (int ancestor = row; ancestor >= begin; ancestor = first + batch.parents[ancestor]) {
      held[static_cast<size_t>(ancestor - begin)] = 1;
      if (batch.parents[ancestor] < 0) break;
    }
  }
}

// The tiles, each as a single unit over all of its chunks.
void FindTiles(const BatchLayout& batch, const AttentionShape& shape, int tile_queries,
               AttentionPlan* plan) {
  const int group = shape.num_heads / shape.num_kv_heads;
  for (int s = 0; s < batch.sequences; ++s) {
    const int begin = batch.row_begin[s];
    const int queries = (batch.row_begin[s + 1] - begin) * group;
    for (int first = 0; first < queries; first += tile_queries) {
      const int count = std::min(tile_queries, queries - first);
      const int row_begin = begin + first / group;
      const int row_end = begin + (first + count - 1) / group + 1;
      const auto [low, high] =
          std::minmax_element(batch.positions + row_begin, batch.positions + row_end);
      const int seen = shape.sliding_window > 0 ? std::max(0, *low + 1 - shape.sliding_window) : 0;
      const auto pass_begin = static_cast<int32_t>(plan->passes.size());
      if (plan->is_tree[static_cast<size_t>(s)] != 0) {
        FindPasses(batch, s, row_begin, row_end, plan);
      }
      plan->units.push_back({.sequence = s,
                             .first_query = first,
                             .queries = count,
                             .chunk_begin = seen / kAttentionChunk,
                             .chunk_end = *high / kAttentionChunk + 1,
                             .begin = seen,
                             .end = *high + 1,
                             .pass_begin = pass_begin,
                             .pass_end = static_cast<int32_t>(plan->passes.size())});
      plan->tile_queries = std::max(plan->tile_queries, count);
    }
  }
}

int Chunks(const AttentionPlanUnit& unit) { return unit.chunk_end - unit.chunk_begin; }

// Results of each query that a tile leaves to its merge, if a unit takes `per_unit` chunks.
int64_t Results(const AttentionPlanUnit& tile, int64_t per_unit) {
  return Chunks(tile) > per_unit ? 1 + Chunks(tile) - per_unit : 0;
}

}  // namespace

void PlanAttention(const BatchLayout& batch, const AttentionShape& shape,
                   const AttentionLimits& limits, AttentionPlan* plan) {
  plan->units.clear();
  plan->merges.clear();
  plan->passes.clear();
  plan->partials = 0;
  plan->tile_queries = 0;
  FindPaths(batch, plan);
  FindTiles(batch, shape, limits.tile_queries, plan);

  const std::vector<AttentionPlanUnit> tiles = plan->units;
  int64_t chunks = 0;
  for (const AttentionPlanUnit& tile : tiles) chunks += Chunks(tile);
  int64_t per_unit = std::max<int64_t>(1, chunks * shape.num_kv_heads / limits.blocks);
  const auto partials = [&] {
    int64_t sum = 0;
    for (const AttentionPlanUnit& tile : tiles) sum += Results(tile, per_unit) * tile.queries;
    return sum;
  };
  while (partials() > limits.max_partials) per_unit *= 2;

  plan->units.clear();
  for (const AttentionPlanUnit& tile : tiles) {
    if (Chunks(tile) <= per_unit) {
      plan->units.push_back(tile);
      continue;
    }
    plan->merges.push_back({.sequence = tile.sequence,
                            .first_query = tile.first_query,
                            .queries = tile.queries,
                            .partial = plan->partials,
                            .results = static_cast<int32_t>(Results(tile, per_unit))});
    for (int chunk = tile.chunk_begin; chunk < tile.chunk_end;
         chunk += static_cast<int>(per_unit)) {
      AttentionPlanUnit unit = tile;
      unit.chunk_begin = chunk;
      unit.chunk_end = std::min(tile.chunk_end, chunk + static_cast<int>(per_unit));
      unit.partial = plan->partials;
      unit.is_first = chunk == tile.chunk_begin ? 1 : 0;
      plan->partials += (unit.is_first != 0 ? 1 : Chunks(unit)) * unit.queries;
      plan->units.push_back(unit);
    }
  }
}

}  // namespace outrider
