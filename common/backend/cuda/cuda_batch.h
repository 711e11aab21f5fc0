// The device copy of a batch's arrays, sent once for all ops that read them, together with the plan
// of its attention.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/batch_layout.h"
#include "common/backend/cuda/attention_plan.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/graph_cache.h"
#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

// A call without qkv, out and partials, and its launch parameters.
struct PlannedAttention {
  AttentionCall call;
  int units = 0;         // blocks per KV head
  int merges = 0;        // merges for whose queries there are blocks
  int tile_queries = 0;  // of the kernel
  int partials = 0;      // that must fit into memory
};

class CudaBatch {
 public:
  explicit CudaBatch(const Stream* stream)
      : stream_(*stream),
        ring_(stream, MemoryKind::kDeviceOutsideGraphs),
        block_(stream),
        outside_block_(stream, MemoryKind::kDeviceOutsideGraphs) {}

  // Sends everything that the ops of these passes read, with an attention plan for each of their
  // windows, in one copy after the work enqueued so far. With `for_graphs`, passes with equal key()
  // have their arrays at equal addresses and launch equal grids: these do not depend on contexts,
  // and the amount of work is in device memory. Keeps `batches` until Clear or the next call: their
  // arrays must not change until then.
  void BeginPasses(std::span<const BatchLayout> batches, const AttentionShape& shape,
                   const AttentionLimits& limits, bool for_graphs);
  // Turns the passes, which must not run then, into those of as many rows whose tiles need the
  // kernel for few or for many queries, and which have merges or none: key() and the launches.
  void PretendAttention(const AttentionShape& shape, const AttentionLimits& limits, bool few,
                        bool merges);
  // Everything that the work of these passes depends on, except the contents of their arrays.
  const GraphKey& key() const { return key_; }
  // The maximum over the plans.
  int most_partials() const;
  // REQUIRES: the stream has been waited for.
  void Clear();

  // The device's copy of a batch's arrays.
  const BatchLayout& Rows(const BatchLayout& batch);
  // The plan of a pass's attention, or a new plan for a batch, a shape or tiles that were not
  // announced. Its call has the shape for which it was planned, as far as a plan depends on it.
  const PlannedAttention& Attention(const BatchLayout& batch, const AttentionShape& shape,
                                    const AttentionLimits& limits);
  // The device copy of an index array, which may belong to a pass.
  const int32_t* Indices(const int32_t* host, int count);
  // The device copy of any other small array, valid until Clear.
  template <class T>
  const T* Send(std::span<const T> host) {
    const T* device = ring_.Add(host.data(), host.size());
    ring_.Send();
    return device;
  }

 private:
  // A batch and the attention of those of its layers that share one window.
  struct Part {
    const BatchLayout* batch = nullptr;
    AttentionShape shape;
  };
  struct Pass {
    BatchLayout host, device;
    PlannedAttention attention;
    int tile_limit = 0;  // tile size for which it was planned
  };

  const Pass* Find(const BatchLayout& batch) const;
  // Plans the parts, sends them to `block` and makes passes of them. Returns the key.
  GraphKey Place(std::span<const Part> parts, const AttentionLimits& limits, bool for_graphs,
                 Scratch* block, std::vector<Pass>* passes);
  BatchLayout SendRows(const BatchLayout& batch);

  const Stream& stream_;
  UploadRing ring_;  // for ops outside of passes
  PinnedStaging staging_;
  Scratch block_, outside_block_;  // arrays of passes; of attention outside of passes
  GraphKey key_;
  std::vector<Pass> passes_, outside_;
  BatchLayout outside_rows_;
  std::vector<AttentionPlan> plans_;  // used in Place
};

}  // namespace outrider
