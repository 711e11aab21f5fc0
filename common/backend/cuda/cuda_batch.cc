#include "common/backend/cuda/cuda_batch.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr int32_t kPassKey = 1;  // of the sequences that there are graphs for

bool Same(const AttentionShape& a, const AttentionShape& b) {
  return a.num_heads == b.num_heads && a.num_kv_heads == b.num_kv_heads &&
         a.head_dim == b.head_dim && a.page_tokens == b.page_tokens &&
         a.sliding_window == b.sliding_window;
}

// Arrays one behind another, each with room for more than it has: where one stands depends on the
// rooms before it alone.
class Packing {
 public:
  // Where it will be.
  template <class T>
  size_t Add(const T* host, size_t count, size_t room) {
    constexpr size_t kAlignment = 64;
    const size_t at = bytes_;
    arrays_[count_++] = {host, count * sizeof(T), at};
    bytes_ = (at + room * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  }
  template <class T>
  size_t Add(const std::vector<T>& host, size_t room) {
    return Add(host.data(), host.size(), room);
  }
  size_t bytes() const { return bytes_; }
  void Write(std::byte* to) const {
    for (const Array& array : std::span(arrays_).first(count_)) {
      if (array.bytes > 0) std::memcpy(to + array.at, array.host, array.bytes);
    }
  }

 private:
  struct Array {
    const void* host = nullptr;
    size_t bytes = 0, at = 0;
  };
  Array arrays_[16];
  size_t count_ = 0, bytes_ = 0;
};

}  // namespace

void CudaBatch::BeginPass(const BatchLayout& batch, const AttentionShape& shape,
                          const AttentionLimits& limits, bool round_up) {
  constexpr size_t kLeastBytes = size_t{1} << 20;  // so that it seldom grows
  OUTRIDER_CHECK(batch.sequences <= batch.rows);
  host_ = batch;
  shape_ = shape;
  tile_queries_ = limits.tile_queries;
  begun_ = true;
  PlanAttention(batch, shape, limits, &plan_);

  const auto rows = static_cast<size_t>(batch.rows);
  const auto sequences = static_cast<size_t>(batch.sequences);
  const auto pages = static_cast<size_t>(batch.page_begin[sequences]);
  // A tile that is merged has two units or more.
  const size_t units = round_up ? std::bit_ceil(plan_.units.size()) : plan_.units.size();
  const size_t merges = round_up && !plan_.merges.empty() ? units / 2 : plan_.merges.size();
  OUTRIDER_CHECK(plan_.merges.size() <= merges);
  const int32_t counts[] = {static_cast<int32_t>(plan_.units.size()),
                            static_cast<int32_t>(plan_.merges.size())};
  // Paths are counted from the pages on: the two of them end the block, and the place of neither
  // depends on how many there are.
  for (int32_t& begin : plan_.path_begin) begin += static_cast<int32_t>(pages);
  // A tile has no more passes than rows, and a row that two tiles share counts twice.
  const size_t passes = rows + units;
  OUTRIDER_CHECK(plan_.passes.size() <= passes);

  Packing packing;
  const size_t at_counts = packing.Add(counts, 2, 2);
  const size_t at_tokens = packing.Add(batch.tokens, batch.tokens == nullptr ? 0 : rows, rows);
  const size_t at_positions = packing.Add(batch.positions, rows, rows);
  const size_t at_slots = packing.Add(batch.slots, rows, rows);
  const size_t at_logit_rows =
      packing.Add(batch.logit_rows, static_cast<size_t>(batch.logit_row_count), rows);
  const size_t at_row_begin = packing.Add(batch.row_begin, sequences + 1, rows + 1);
  const size_t at_context = packing.Add(batch.context, sequences, rows);
  const size_t at_page_begin = packing.Add(batch.page_begin, sequences + 1, rows + 1);
  const size_t at_is_tree = packing.Add(plan_.is_tree, rows);
  const size_t at_path_begin = packing.Add(plan_.path_begin, rows);
  const size_t at_passes = packing.Add(plan_.passes, passes);
  const size_t at_units = packing.Add(plan_.units, units);
  const size_t at_merges = packing.Add(plan_.merges, merges);
  const size_t at_pages = packing.Add(batch.pages, pages, pages);
  const size_t bytes = at_pages + (pages + plan_.paths.size()) * sizeof(int32_t);

  auto* device = static_cast<std::byte*>(pass_.AtLeast(std::max(kLeastBytes, bytes)));
  std::byte* staged = staging_.Take(bytes);
  if (staged == nullptr) return;  // in a capture, which is spoiled by that
  packing.Write(staged);
  if (!plan_.paths.empty()) {
    std::memcpy(staged + at_pages + pages * sizeof(int32_t), plan_.paths.data(),
                plan_.paths.size() * sizeof(int32_t));
  }
  MustSucceed(cudaMemcpyAsync(device, staged, bytes, cudaMemcpyHostToDevice, stream_.get()),
              "copying to the device");

  const auto ints = [device](size_t at) { return reinterpret_cast<const int32_t*>(device + at); };
  device_ = {.rows = batch.rows,
             .sequences = batch.sequences,
             .tokens = ints(at_tokens),
             .positions = ints(at_positions),
             .slots = ints(at_slots),
             .row_begin = ints(at_row_begin),
             .context = ints(at_context),
             .page_begin = ints(at_page_begin),
             .pages = ints(at_pages),
             .logit_rows = ints(at_logit_rows),
             .logit_row_count = batch.logit_row_count};
  // As for the launch: one kernel takes all tiles up to a power of two.
  const int tile_queries =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(plan_.tile_queries)));
  attention_ = {.call = {.positions = device_.positions,
                         .row_begin = device_.row_begin,
                         .context = device_.context,
                         .page_begin = device_.page_begin,
                         .pages = device_.pages,
                         .is_tree = ints(at_is_tree),
                         .path_begin = ints(at_path_begin),
                         .paths = device_.pages,
                         .passes = ints(at_passes),
                         .units = reinterpret_cast<const AttentionUnit*>(device + at_units),
                         .merges = reinterpret_cast<const AttentionMerge*>(device + at_merges),
                         .counts = ints(at_counts),
                         .shape = shape},
                .units = static_cast<int>(units),
                .merges = static_cast<int>(merges),
                .tile_queries = tile_queries,
                .partials = plan_.partials};
  key_ = {kPassKey,          batch.rows,   batch.logit_row_count,  attention_.units,
          attention_.merges, tile_queries, batch.tokens != nullptr};
}

void CudaBatch::Forget() {
  begun_ = false;
  ring_.Reset();
  staging_.Reset();
}

void CudaBatch::SendRows(const BatchLayout& batch) {
  host_ = device_ = batch;
  const auto rows = static_cast<size_t>(batch.rows);
  const auto sequences = static_cast<size_t>(batch.sequences);
  device_.tokens = batch.tokens == nullptr ? nullptr : ring_.Add(batch.tokens, rows);
  device_.positions = ring_.Add(batch.positions, rows);
  device_.slots = ring_.Add(batch.slots, rows);
  device_.row_begin = ring_.Add(batch.row_begin, sequences + 1);
  device_.context = ring_.Add(batch.context, sequences);
  device_.page_begin = ring_.Add(batch.page_begin, sequences + 1);
  device_.pages = ring_.Add(batch.pages, static_cast<size_t>(batch.page_begin[sequences]));
  device_.logit_rows = ring_.Add(batch.logit_rows, static_cast<size_t>(batch.logit_row_count));
  device_.row_sequence = nullptr;
  device_.parents = nullptr;
  ring_.Send();
}

const BatchLayout& CudaBatch::Rows(const BatchLayout& batch) {
  if (!Holds(batch)) {
    begun_ = false;
    SendRows(batch);
  }
  return device_;
}

const PlannedAttention& CudaBatch::Attention(const BatchLayout& batch, const AttentionShape& shape,
                                             const AttentionLimits& limits) {
  const bool held = Holds(batch);
  if (!held || !Same(shape, shape_) || limits.tile_queries != tile_queries_) {
    BeginPass(batch, shape, limits, /*round_up=*/false);
    begun_ = held;
  }
  return attention_;
}

const int32_t* CudaBatch::Indices(const int32_t* host, int count) {
  if (begun_ && host == host_.tokens) return device_.tokens;
  if (begun_ && host == host_.logit_rows) return device_.logit_rows;
  return Send(std::span(host, static_cast<size_t>(count)));
}

}  // namespace outrider
