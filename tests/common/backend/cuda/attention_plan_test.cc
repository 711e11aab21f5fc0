#include "common/backend/cuda/attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace outrider {
namespace {

constexpr AttentionShape kShape = {
    .num_heads = 32, .num_kv_heads = 8, .head_dim = 128, .page_tokens = 16};
constexpr AttentionLimits kLimits = {.blocks = 528, .max_partials = 8000, .tile_queries = 64};

// Chains of `rows[s]` new tokens after `contexts[s]` cached ones.
struct Batch {
  Batch(const std::vector<int>& contexts, const std::vector<int>& rows) : context(contexts) {
    for (size_t s = 0; s < rows.size(); ++s) {
      for (int i = 0; i < rows[s]; ++i) {
        positions.push_back(contexts[s] + i);
        parents.push_back(i - 1);
      }
      row_begin.push_back(static_cast<int32_t>(positions.size()));
    }
  }
  BatchLayout layout() const {
    BatchLayout out;
    out.rows = static_cast<int>(positions.size());
    out.sequences = static_cast<int>(context.size());
    out.positions = positions.data();
    out.row_begin = row_begin.data();
    out.context = context.data();
    out.parents = parents.data();
    return out;
  }
  std::vector<int32_t> context, positions, parents, row_begin = {0};
};

AttentionPlan Plan(const Batch& batch, const AttentionShape& shape = kShape,
                   const AttentionLimits& limits = kLimits) {
  AttentionPlan plan;
  PlanAttention(batch.layout(), shape, limits, &plan);
  return plan;
}

// Every chunk that a query sees is in exactly one unit of its tile; partial results do not overlap
// and, within a merge, are in the order of their chunks.
void ExpectComplete(const AttentionPlan& plan, const Batch& batch, const AttentionShape& shape,
                    int tile_queries = kLimits.tile_queries) {
  const int group = shape.num_heads / shape.num_kv_heads;
  std::vector<int> used(static_cast<size_t>(plan.partials));
  for (int s = 0; s < static_cast<int>(batch.context.size()); ++s) {
    const int begin = batch.row_begin[s];
    for (int q = 0; q < (batch.row_begin[s + 1] - begin) * group; ++q) {
      const int position = batch.positions[begin + q / group];
      const int seen =
          shape.sliding_window > 0 ? std::max(0, position + 1 - shape.sliding_window) : 0;
      for (int chunk = seen / kAttentionChunk; chunk <= position / kAttentionChunk; ++chunk) {
        EXPECT_EQ(std::count_if(plan.units.begin(), plan.units.end(),
                                [&](const AttentionPlanUnit& u) {
                                  return u.sequence == s && u.first_query <= q &&
                                         q < u.first_query + u.queries && u.chunk_begin <= chunk &&
                                         chunk < u.chunk_end;
                                }),
                  1)
            << "sequence " << s << " query " << q << " chunk " << chunk;
      }
    }
  }
  for (const AttentionMerge& merge : plan.merges) {
    int next = merge.partial;
    for (const AttentionPlanUnit& unit : plan.units) {
      if (unit.sequence != merge.sequence || unit.first_query != merge.first_query) continue;
      EXPECT_EQ(unit.partial, next);
      EXPECT_EQ(unit.is_first != 0, next == merge.partial);
      EXPECT_EQ(unit.queries, merge.queries);
      next += (unit.is_first != 0 ? 1 : unit.chunk_end - unit.chunk_begin) * unit.queries;
    }
    EXPECT_EQ(next, merge.partial + merge.results * merge.queries);
    for (int i = merge.partial; i < next; ++i) ++used[static_cast<size_t>(i)];
  }
  EXPECT_TRUE(std::all_of(used.begin(), used.end(), [](int n) { return n == 1; }));
  for (const AttentionPlanUnit& unit : plan.units) {
    EXPECT_GT(unit.chunk_end, unit.chunk_begin);
    EXPECT_LE(unit.queries, tile_queries);
    EXPECT_LE(unit.queries, plan.tile_queries);
    int begin = INT32_MAX, end = 0;
    for (int q = unit.first_query; q < unit.first_query + unit.queries; ++q) {
      const int position = batch.positions[batch.row_begin[unit.sequence] + q / group];
      end = std::max(end, position + 1);
      begin = std::min(
          begin, shape.sliding_window > 0 ? std::max(0, position + 1 - shape.sliding_window) : 0);
    }
    EXPECT_EQ(unit.begin, begin);
    EXPECT_EQ(unit.end, end);
  }
}

TEST(AttentionPlan, CutsLongContextIntoChunks) {
  const Batch batch({4000}, {1});
  const AttentionPlan plan = Plan(batch);
  EXPECT_EQ(plan.units.size(), 16u);  // 16 chunks by 8 heads do not fill 528 blocks
  EXPECT_EQ(plan.merges.size(), 1u);
  EXPECT_EQ(plan.tile_queries, 4);
  ExpectComplete(plan, batch, kShape);
}

TEST(AttentionPlan, ManyShortContextsAreNotCut) {
  const Batch batch(std::vector<int>(128, 1000), std::vector<int>(128, 1));
  const AttentionPlan plan = Plan(batch);
  EXPECT_EQ(plan.units.size(), 128u);
  EXPECT_TRUE(plan.merges.empty());
  EXPECT_EQ(plan.partials, 0);
  ExpectComplete(plan, batch, kShape);
}

TEST(AttentionPlan, CutsOnlyTheLongContext) {
  std::vector<int> contexts(100, 500);
  contexts[37] = 100000;
  const Batch batch(contexts, std::vector<int>(100, 2));
  const AttentionPlan plan = Plan(batch);
  ASSERT_EQ(plan.merges.size(), 1u);
  EXPECT_EQ(plan.merges[0].sequence, 37);
  EXPECT_GT(plan.units.size(), 120u);
  ExpectComplete(plan, batch, kShape);
}

TEST(AttentionPlan, FitsRoomForPartialResults) {
  const Batch batch({100000, 90000}, {2, 3});
  for (const int room : {0, 1, 391, 3000, 8000}) {
    const AttentionPlan plan =
        Plan(batch, kShape, {.blocks = 100000, .max_partials = room, .tile_queries = 64});
    EXPECT_LE(plan.partials, room);
    ExpectComplete(plan, batch, kShape);
  }
}

TEST(AttentionPlan, WindowSkipsUnseenPositions) {
  AttentionShape shape = kShape;
  shape.sliding_window = 300;
  const Batch batch({5000, 3}, {20, 400});
  const AttentionPlan plan = Plan(batch, shape);
  ExpectComplete(plan, batch, shape);
  EXPECT_EQ(plan.units[0].chunk_begin, (5001 - 300) / kAttentionChunk);
}

TEST(AttentionPlan, OnlyTreesBringPaths) {
  Batch batch({10, 20}, {4, 3});
  batch.parents = {-1, -1, 0, 2, -1, 0, 1};
  batch.positions = {10, 10, 11, 12, 20, 21, 22};
  const AttentionPlan plan = Plan(batch);
  EXPECT_EQ(plan.is_tree, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(plan.paths, (std::vector<int32_t>{0, 1, 0, 2, 0, 2, 3}));
  EXPECT_EQ(plan.path_begin[2], 2);
  EXPECT_EQ(plan.path_begin[3], 4);
  ExpectComplete(plan, batch, kShape);
  EXPECT_TRUE(Plan(Batch({10}, {3})).paths.empty());
  EXPECT_TRUE(Plan(Batch({10}, {3})).passes.empty());
}

// Queries of a group of 3 in tiles of 8: a row's heads may be in two of them.
TEST(AttentionPlan, TilesAreAsLargeAsPossible) {
  AttentionShape shape = kShape;
  shape.num_heads = 24;
  const Batch batch({1000, 0}, {5, 30});
  for (const int tile : {1, 8, 64}) {
    const AttentionPlan plan =
        Plan(batch, shape, {.blocks = 1, .max_partials = 0, .tile_queries = tile});
    ExpectComplete(plan, batch, shape, tile);
    EXPECT_EQ(plan.units.size(), (15u + tile - 1) / tile + (90u + tile - 1) / tile);
    EXPECT_EQ(plan.tile_queries, tile);
  }
}

// The chunks that a tile's first unit sums itself need no memory for partial results.
TEST(AttentionPlan, FirstUnitLeavesOneResult) {
  const AttentionPlan plan =
      Plan(Batch({2000}, {1}), kShape, {.blocks = 20, .max_partials = 100, .tile_queries = 64});
  ASSERT_EQ(plan.units.size(), 3u);  // 8 chunks, 3 per unit
  ASSERT_EQ(plan.merges.size(), 1u);
  EXPECT_EQ(plan.merges[0].results, 1 + 3 + 2);
  EXPECT_EQ(plan.partials, 4 * (1 + 3 + 2));
}

TEST(AttentionPlan, PathsCoverEveryTreeRow) {
  Batch batch({10, 20, 7}, {6, 3, 1});
  //                0
  //        1               2
  //      3   4             5
  batch.parents = {-1, 0, 0, 1, 1, 2, -1, 0, 1, -1};
  batch.positions = {10, 11, 11, 12, 12, 12, 20, 21, 22, 7};
  AttentionShape shape = kShape;
  const auto passes = [&](int tile) {
    const AttentionPlan plan =
        Plan(batch, shape, {.blocks = 1, .max_partials = 0, .tile_queries = tile});
    std::vector<std::vector<int32_t>> unit_passes;
    for (const AttentionPlanUnit& unit : plan.units) {
      unit_passes.emplace_back(plan.passes.begin() + unit.pass_begin,
                               plan.passes.begin() + unit.pass_end);
    }
    return unit_passes;
  };
  using Passes = std::vector<std::vector<int32_t>>;
  EXPECT_EQ(passes(64), (Passes{{5, 4, 3}, {}, {}}));
  // Three rows of four heads each: 0 to 2, whose leaves are in another tile, then the leaves.
  EXPECT_EQ(passes(12), (Passes{{2, 1}, {5, 4, 3}, {}, {}}));
  // Half a row.
  EXPECT_EQ(passes(2)[3], (std::vector<int32_t>{1}));
}

}  // namespace
}  // namespace outrider
