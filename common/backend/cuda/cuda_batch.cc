#include "common/backend/cuda/cuda_batch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace outrider {
namespace {

// Whether one plan serves both shapes.
bool Same(const AttentionShape& a, const AttentionShape& b) {
  return a.num_heads == b.num_heads && a.num_kv_heads == b.num_kv_heads &&
         a.head_dim == b.head_dim && a.page_tokens == b.page_tokens &&
         a.sliding_window == b.sliding_window;
}

// ArrayOffsets arrays one after another, each with capacity for more than its elements: where one
// begins depends only on the capacities before it.
class Packing {
 public:
  // Returns the offset of the array.
  template <class T>
  size_t Add(const T* host, size_t count, size_t room) {
    constexpr size_t kLineBytes = 64;
    const size_t offset = bytes_;
    arrays_.push_back({host, count * sizeof(T), offset});
    bytes_ = (offset + room * sizeof(T) + kLineBytes - 1) / kLineBytes * kLineBytes;
    return offset;
  }
  template <class T>
  size_t Add(const std::vector<T>& host, size_t room) {
    return Add(host.data(), host.size(), room);
  }
  size_t bytes() const { return bytes_; }
  void Write(std::byte* to) const {
    for (const Array& array : arrays_) {
      if (array.bytes > 0) std::memcpy(to + array.offset, array.host, array.bytes);
    }
  }

 private:
  struct Array {
    const void* host = nullptr;
    size_t bytes = 0, offset = 0;
  };
  std::vector<Array> arrays_;
  size_t bytes_ = 0;
};

// Offsets of a pass's arrays in the block; pages and paths of all passes are in one list.
struct ArrayOffsets {
  size_t counts, tokens, positions, slots, logit_rows, row_begin, context, page_begin, is_tree,
      path_begin, passes, units, merges, lists;
};

// Launch sizes of attention (PlannedAttention), shared by all plans: those of the largest one.
struct Grid {
  size_t units = 0, merges = 0;
  int tile_queries = 0;
  // Most units and merges of a plan.
  size_t unit_room = 0, merge_room = 0;
};

Grid GridOf(std::span<const AttentionPlan> plans) {
  Grid grid;
  for (const AttentionPlan& plan : plans) {
    grid.units = std::max(grid.units, plan.units.size());
    grid.merges = std::max(grid.merges, plan.merges.size());
    grid.tile_queries = std::max(grid.tile_queries, plan.tile_queries);
  }
  grid.unit_room = grid.units;
  grid.merge_room = grid.merges;
  // As for the launch: one kernel handles all tiles up to a power of two.
  grid.tile_queries = static_cast<int>(std::bit_ceil(static_cast<unsigned>(grid.tile_queries)));
  return grid;
}

// The grid of every pass of `rows` rows whose tiles need the kernel for few or for many queries,
// and which has merges or none.
Grid GraphGrid(int rows, const AttentionShape& shape, const AttentionLimits& limits, bool few,
               bool merges) {
  constexpr size_t kMergeBlocks = 4;  // small ones, for each block of attention
  const auto kv_heads = static_cast<size_t>(shape.num_kv_heads);
  const size_t busy = (static_cast<size_t>(limits.blocks) + kv_heads - 1) / kv_heads;
  const int group = shape.num_heads / shape.num_kv_heads;
  const size_t tiles = static_cast<size_t>(rows) *
                       static_cast<size_t>((group + limits.tile_queries - 1) / limits.tile_queries);
  Grid grid;
  grid.tile_queries = few ? limits.few_queries : limits.tile_queries;
  grid.units = std::max(busy, tiles);
  // All chunks are split into at most twice as many units as keep the device busy (PlanAttention
  // rounds chunks per unit down), and each tile adds one that is not full.
  grid.unit_room = 2 * busy + tiles;
  grid.merge_room = tiles;
  if (merges) {
    const size_t blocks = kMergeBlocks * busy;
    const auto per_merge = static_cast<size_t>(grid.tile_queries);
    grid.merges = std::min(tiles, (blocks + per_merge - 1) / per_merge);
  }
  return grid;
}

Grid GraphGridOf(std::span<const AttentionPlan> plans, int rows, const AttentionShape& shape,
                 const AttentionLimits& limits) {
  const Grid largest = GridOf(plans);
  const int queries = largest.tile_queries;
  return GraphGrid(rows, shape, limits, queries <= limits.few_queries, largest.merges > 0);
}

// The launches of attention in a graph's key, which begins with them.
GraphKey KeyOf(const Grid& grid) {
  return {static_cast<int32_t>(grid.units), static_cast<int32_t>(grid.merges), grid.tile_queries};
}

const int32_t* Ints(const std::byte* device, size_t offset) {
  return reinterpret_cast<const int32_t*>(device + offset);
}

BatchLayout LayoutAt(const std::byte* device, const ArrayOffsets& offsets,
                     const BatchLayout& batch) {
  return {.rows = batch.rows,
          .sequences = batch.sequences,
          .tokens = Ints(device, offsets.tokens),
          .positions = Ints(device, offsets.positions),
          .slots = Ints(device, offsets.slots),
          .row_begin = Ints(device, offsets.row_begin),
          .context = Ints(device, offsets.context),
          .page_begin = Ints(device, offsets.page_begin),
          .pages = Ints(device, offsets.lists),
          .logit_rows = Ints(device, offsets.logit_rows),
          .logit_row_count = batch.logit_row_count};
}

AttentionCall CallAt(const std::byte* device, const ArrayOffsets& offsets,
                     const BatchLayout& placed, const AttentionShape& shape) {
  return {.positions = placed.positions,
          .row_begin = placed.row_begin,
          .context = placed.context,
          .page_begin = placed.page_begin,
          .pages = placed.pages,
          .is_tree = Ints(device, offsets.is_tree),
          .path_begin = Ints(device, offsets.path_begin),
          .paths = Ints(device, offsets.lists),
          .passes = Ints(device, offsets.passes),
          .units = reinterpret_cast<const AttentionPlanUnit*>(device + offsets.units),
          .merges = reinterpret_cast<const AttentionMerge*>(device + offsets.merges),
          .counts = Ints(device, offsets.counts),
          .shape = shape};
}

// Reserves the arrays of a part. `counts` [2]: its number of units and of merges.
ArrayOffsets PackPart(const BatchLayout& batch, const AttentionPlan& plan, const Grid& grid,
                      const std::array<int32_t, 2>& counts, Packing& packing) {
  const auto rows = static_cast<size_t>(batch.rows);
  const auto sequences = static_cast<size_t>(batch.sequences);
  OUTRIDER_CHECK(plan.units.size() <= grid.unit_room && plan.merges.size() <= grid.merge_room);
  // A tile has at most as many passes as rows, and a row that two tiles share counts twice.
  const size_t row_passes = rows + grid.unit_room;
  OUTRIDER_CHECK(plan.passes.size() <= row_passes);
  return {
      .counts = packing.Add(counts.data(), 2, 2),
      .tokens = packing.Add(batch.tokens, batch.tokens == nullptr ? 0 : rows, rows),
      .positions = packing.Add(batch.positions, rows, rows),
      .slots = packing.Add(batch.slots, rows, rows),
      .logit_rows = packing.Add(batch.logit_rows, static_cast<size_t>(batch.logit_row_count), rows),
      .row_begin = packing.Add(batch.row_begin, sequences + 1, rows + 1),
      .context = packing.Add(batch.context, sequences, rows),
      .page_begin = packing.Add(batch.page_begin, sequences + 1, rows + 1),
      .is_tree = packing.Add(plan.is_tree, rows),
      .path_begin = packing.Add(plan.path_begin, rows),
      .passes = packing.Add(plan.passes, row_passes),
      .units = packing.Add(plan.units, grid.unit_room),
      .merges = packing.Add(plan.merges, grid.merge_room),
      .lists = 0};
}

// Appends lists one after another, from offset `at_lists` of the staged bytes on.
class ListWriter {
 public:
  ListWriter(std::byte* staged, size_t at_lists)
      : staged_(staged), lists_(reinterpret_cast<int32_t*>(staged + at_lists)), next_(lists_) {}

  // Appends a list, and rebases the `begins` offsets at `at_begins` from the start of this list to
  // the start of the first one.
  void Append(std::span<const int32_t> list, size_t at_begins, size_t begins) {
    auto* const begin = reinterpret_cast<int32_t*>(staged_ + at_begins);
    for (size_t j = 0; j < begins; ++j) begin[j] += static_cast<int32_t>(next_ - lists_);
    next_ = std::ranges::copy(list, next_).out;
  }

 private:
  std::byte* staged_;
  int32_t* lists_;
  int32_t* next_;
};

}  // namespace

// First come the arrays of all parts whose sizes follow from the key, then the pages and paths,
// whose number changes from pass to pass: offsets into those count from the first of them.
GraphKey CudaBatch::Place(std::span<const Part> parts, const AttentionLimits& limits,
                          bool for_graphs, Scratch* block, std::vector<Pass>* passes) {
  constexpr size_t kLeastBytes = size_t{1} << 20;  // so that it rarely grows
  passes->clear();
  if (parts.empty()) return {};
  plans_.resize(std::max(plans_.size(), parts.size()));
  const auto plans = std::span(plans_).first(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    OUTRIDER_CHECK(parts[i].batch->sequences <= parts[i].batch->rows);
    PlanAttention(*parts[i].batch, parts[i].shape, limits, &plans[i]);
  }
  int rows = 0;
  for (const Part& part : parts) rows = std::max(rows, part.batch->rows);
  const Grid grid = for_graphs ? GraphGridOf(plans, rows, parts[0].shape, limits) : GridOf(plans);
  GraphKey key = KeyOf(grid);

  Packing packing;
  std::vector<ArrayOffsets> places;
  std::vector<std::array<int32_t, 2>> counts(parts.size());
  size_t listed = 0;  // number of pages and path entries
  for (size_t i = 0; i < parts.size(); ++i) {
    const BatchLayout& batch = *parts[i].batch;
    counts[i] = {static_cast<int32_t>(plans[i].units.size()),
                 static_cast<int32_t>(plans[i].merges.size())};
    listed += static_cast<size_t>(batch.page_begin[batch.sequences]) + plans[i].paths.size();
    places.push_back(PackPart(batch, plans[i], grid, counts[i], packing));
    key.insert(key.end(), {batch.rows, batch.logit_row_count, batch.tokens != nullptr});
  }
  const size_t at_lists = packing.bytes();
  for (ArrayOffsets& offsets : places) offsets.lists = at_lists;
  const size_t bytes = at_lists + listed * sizeof(int32_t);

  auto* device = static_cast<std::byte*>(block->AtLeast(std::max(kLeastBytes, bytes)));
  std::byte* staged = staging_.Take(bytes);
  if (device == nullptr || staged == nullptr) {  // during a capture, which this invalidates
    passes->resize(parts.size());
    return key;
  }
  packing.Write(staged);
  ListWriter lists(staged, at_lists);
  for (size_t i = 0; i < parts.size(); ++i) {
    const BatchLayout& batch = *parts[i].batch;
    const auto sequences = static_cast<size_t>(batch.sequences);
    lists.Append({batch.pages, static_cast<size_t>(batch.page_begin[sequences])},
                 places[i].page_begin, sequences + 1);
    lists.Append(plans[i].paths, places[i].path_begin, plans[i].path_begin.size());
  }
  MustSucceed(cudaMemcpyAsync(device, staged, bytes, cudaMemcpyHostToDevice, stream_.get()),
              "copying to the device");
  for (size_t i = 0; i < parts.size(); ++i) {
    const BatchLayout placed = LayoutAt(device, places[i], *parts[i].batch);
    passes->push_back({.host = *parts[i].batch,
                       .device = placed,
                       .attention = {.call = CallAt(device, places[i], placed, parts[i].shape),
                                     .units = static_cast<int>(grid.units),
                                     .merges = static_cast<int>(grid.merges),
                                     .tile_queries = grid.tile_queries,
                                     .partials = plans[i].partials},
                       .tile_limit = limits.tile_queries});
  }
  return key;
}

void CudaBatch::BeginPasses(std::span<const BatchLayout> batches, const AttentionShape& shape,
                            const AttentionLimits& limits, bool for_graphs) {
  std::vector<Part> parts;
  for (const BatchLayout& batch : batches) {
    AttentionShape part_shape = shape;
    if (batch.windows.empty()) parts.push_back({&batch, part_shape});
    for (const int window : batch.windows) {
      part_shape.sliding_window = window;
      parts.push_back({&batch, part_shape});
    }
  }
  key_ = Place(parts, limits, for_graphs, &block_, &passes_);
}

void CudaBatch::PretendAttention(const AttentionShape& shape, const AttentionLimits& limits,
                                 bool few, bool merges) {
  const Grid grid = GraphGrid(passes_[0].host.rows, shape, limits, few, merges);
  for (Pass& pass : passes_) {
    pass.attention.units = static_cast<int>(grid.units);
    pass.attention.merges = static_cast<int>(grid.merges);
    pass.attention.tile_queries = grid.tile_queries;
  }
  std::ranges::copy(KeyOf(grid), key_.begin());
}

int CudaBatch::most_partials() const {
  int most = 0;
  for (const Pass& pass : passes_) most = std::max(most, pass.attention.partials);
  return most;
}

void CudaBatch::Clear() {
  passes_.clear();
  ring_.Reset();
  staging_.Reset();
}

const CudaBatch::Pass* CudaBatch::Find(const BatchLayout& batch) const {
  for (const Pass& pass : passes_) {
    if (pass.host.positions == batch.positions) return &pass;
  }
  return nullptr;
}

BatchLayout CudaBatch::SendRows(const BatchLayout& batch) {
  BatchLayout device = batch;
  const auto rows = static_cast<size_t>(batch.rows);
  const auto sequences = static_cast<size_t>(batch.sequences);
  device.tokens = batch.tokens == nullptr ? nullptr : ring_.Add(batch.tokens, rows);
  device.positions = ring_.Add(batch.positions, rows);
  device.slots = ring_.Add(batch.slots, rows);
  device.row_begin = ring_.Add(batch.row_begin, sequences + 1);
  device.context = ring_.Add(batch.context, sequences);
  device.page_begin = ring_.Add(batch.page_begin, sequences + 1);
  device.pages = ring_.Add(batch.pages, static_cast<size_t>(batch.page_begin[sequences]));
  device.logit_rows = ring_.Add(batch.logit_rows, static_cast<size_t>(batch.logit_row_count));
  device.parents = nullptr;
  ring_.Send();
  return device;
}

const BatchLayout& CudaBatch::Rows(const BatchLayout& batch) {
  if (const Pass* pass = Find(batch)) return pass->device;
  outside_rows_ = SendRows(batch);
  return outside_rows_;
}

const PlannedAttention& CudaBatch::Attention(const BatchLayout& batch, const AttentionShape& shape,
                                             const AttentionLimits& limits) {
  for (const Pass& pass : passes_) {
    if (pass.host.positions == batch.positions && Same(shape, pass.attention.call.shape) &&
        limits.tile_queries == pass.tile_limit) {
      return pass.attention;
    }
  }
  const Part part = {&batch, shape};
  Place({&part, 1}, limits, /*for_graphs=*/false, &outside_block_, &outside_);
  return outside_[0].attention;
}

const int32_t* CudaBatch::Indices(const int32_t* host, int count) {
  for (const Pass& pass : passes_) {
    if (host == pass.host.tokens) return pass.device.tokens;
    if (host == pass.host.logit_rows) return pass.device.logit_rows;
  }
  return Send(std::span(host, static_cast<size_t>(count)));
}

}  // namespace outrider
