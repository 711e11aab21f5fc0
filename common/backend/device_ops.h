// What a backend has beside its ops when its memory is a device's own (a GPU): memory to plan with,
// passes that run as one graph, drafts of several depths without the host between them, counters.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "common/backend/batch_layout.h"
#include "common/backend/packed_matrix.h"
#include "common/backend/pick_batch.h"

namespace outrider {

// Of the device, in bytes.
struct DeviceMemory {
  int64_t free = 0;
  int64_t total = 0;
};

// What the device ran as one graph so far (a forward pass, or all depths of a draft but the first),
// and the graphs captured for that.
struct GraphCounts {
  int64_t launches = 0;
  int64_t captures = 0;
};

// Thread: the backend's owner.
class DeviceOps {
 public:
  virtual ~DeviceOps() = default;

  virtual DeviceMemory Memory() const = 0;

  // Calls `ops`, the ops of one forward pass over `batch`, or replays the graph that an equal pass
  // left. REQUIRES: the batch's arrays stay as they are until the next RunPass or Wait(); `ops`
  // reads no other host memory and does nothing but call ops, those of the layers with `shape`, in
  // one of the batch's windows, over caches of type `kv`. For equal numbers of rows and wanted
  // rows, with tokens or without, they are the same, on the same memory and with the same numbers.
  virtual void RunPass(const BatchLayout& batch, const AttentionShape& shape, KvType kv,
                       const std::function<void()>& ops) = 0;

  // Drafts several depths in one go. The ops(d) of passes[d], as RunPass has them, make `rows`, one
  // of each chain (PickBatch::AddChain) in their order; then a token is drawn for each, which
  // EmbedDrawn feeds to the next pass, whose layout has no tokens. Waits for all of it. What was
  // picked and drawn, by depth and then by chain, until the next Draft or RunChains.
  virtual std::span<const PickedRow> RunChains(std::span<const BatchLayout> passes,
                                               const AttentionShape& shape, KvType kv,
                                               const PickBatch& chains, float* rows, int vocab,
                                               const std::function<void(int depth)>& ops) = 0;
  // Backend::Embed of the tokens that the depth before has drawn.
  virtual void EmbedDrawn(const PackedMatrix& table, int rows, float* out) = 0;

  // Bytes copied to the host so far.
  virtual int64_t bytes_to_host() const = 0;
  virtual GraphCounts graph_counts() const = 0;
};

}  // namespace outrider
