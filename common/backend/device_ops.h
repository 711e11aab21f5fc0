// What a backend with device memory (a GPU) has besides its ops: free memory for planning, passes
// that run as one graph, drafts of several depths without a host round trip, groups of devices,
// and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/backend/batch_layout.h"
#include "common/backend/communicator.h"
#include "common/backend/packed_matrix.h"
#include "common/backend/pick_batch.h"
#include "common/base/status.h"

namespace outrider {

// In bytes.
struct DeviceMemory {
  int64_t free = 0;
  int64_t total = 0;
};

// Work that the device has run as one graph so far (a forward pass, or all depths of a draft but
// the first), and the graphs captured for it.
struct GraphCounts {
  int64_t launches = 0;
  int64_t captures = 0;
};

// Products with FP8 weights whose activations are rounded to FP8 (CudaBackendOptions).
struct Fp8Counts {
  int matrices = 0;      // packed matrices with such products
  int64_t products = 0;  // those that multiplied codes on both sides, replays not counted
};

// Thread: the backend's owner.
class DeviceOps {
 public:
  virtual ~DeviceOps() = default;

  virtual DeviceMemory Memory() const = 0;
  // The device's name and size. The ranks of a group have devices of one kind: what a pass launches
  // depends on it.
  virtual std::string Kind() const = 0;

  // Calls `ops`, the ops of one forward pass over `batch`, or replays the graph captured for an
  // equal pass. REQUIRES: the batch's arrays do not change until the next RunPass or Wait(); `ops`
  // reads no other host memory and only calls ops, those of the layers with `shape` in one of the
  // batch's windows, over caches of type `kv`. For equal numbers of rows and of logits rows, with
  // tokens or without, the ops are the same, on the same memory and with the same arguments.
  virtual void RunPass(const BatchLayout& batch, const AttentionShape& shape, KvType kv,
                       const std::function<void()>& ops) = 0;

  virtual Fp8Counts fp8_counts() const = 0;

  // The largest number of rows of a pass that runs as a graph; 0: none does.
  virtual int max_graph_rows() const = 0;
  // How many rows a pass over `rows` rows should have, and, if it has logits rows, how many of
  // these, so that passes of similar sizes run as the same graph. The caller adds rows whose
  // results are not read.
  virtual int PaddedRows(int rows) const = 0;
  // Runs `ops` once, as RunPass does, then captures them as the graphs of every pass that has as
  // many rows and logits rows as `batch`, whatever its sequences. Waits. Does nothing if there are
  // no graphs of such passes.
  virtual void CapturePasses(const BatchLayout& batch, const AttentionShape& shape, KvType kv,
                             const std::function<void()>& ops) = 0;

  // Drafts several depths in one go. The ops(d) of passes[d], as in RunPass, produce `rows`, one
  // row per chain (PickBatch::AddChain) in order; then a token is sampled for each, which
  // EmbedDrawn feeds to the next pass, whose layout has no tokens. Waits for all of it. Returns
  // what was picked and sampled, by depth and then by chain; valid until the next Draft or
  // RunChains.
  virtual std::span<const PickedRow> RunChains(std::span<const BatchLayout> passes,
                                               const AttentionShape& shape, KvType kv,
                                               const PickBatch& chains, float* rows, int vocab,
                                               const std::function<void(int depth)>& ops) = 0;
  // Backend::Embed of the tokens sampled at the previous depth.
  virtual void EmbedDrawn(const PackedMatrix& table, int rows, float* out) = 0;

  // An identifier of a new group of ranks, made by rank 0 and handed to the others by the caller.
  // kUnimplemented / kFailedPrecondition without the library (libnccl.so.2).
  virtual Result<std::vector<std::byte>> NewGroup() = 0;
  // Opens and allocates what JoinGroup needs. A rank that fails there lets the others wait forever,
  // so all prepare before any joins.
  virtual Status PrepareGroup(int rank, int ranks) = 0;
  // Joins the group; waits until all ranks have. The communicator must not outlive the backend.
  virtual Result<std::unique_ptr<Communicator>> JoinGroup(std::span<const std::byte> group,
                                                          int rank, int ranks) = 0;

  // Bytes copied to the host so far.
  virtual int64_t bytes_to_host() const = 0;
  virtual GraphCounts graph_counts() const = 0;
};

}  // namespace outrider
