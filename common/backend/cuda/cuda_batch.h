// A batch's arrays on the device, sent once however many ops read them, and with them the plan of
// its attention.
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

// A call without qkv, out and partials, and what its launch needs.
struct PlannedAttention {
  AttentionCall call;
  int units = 0;   // blocks of each KV head, for units that there may be
  int merges = 0;  // the same
  int tile_queries = 0;
  int partials = 0;  // that there must be room for
};

class CudaBatch {
 public:
  explicit CudaBatch(const Stream* stream)
      : stream_(*stream), ring_(stream), block_(stream), outside_block_(stream) {}

  // Sends all that the ops of some passes read, with a plan of attention for each of their windows,
  // in one copy after what was enqueued before. With
  // `round_up`, those of an equal key() have their arrays at equal places and launch the same
  // grids: those of attention are rounded up, and how many of their blocks have work stands on the
  // device. Keeps `batches` until Forget or the next call: their arrays do not change until then.
  void BeginPasses(std::span<const BatchLayout> batches, const AttentionShape& shape,
                   const AttentionLimits& limits, bool round_up);
  // What the work of these passes depends on, beside the contents of their arrays.
  const GraphKey& key() const { return key_; }
  // Of the plan that has most.
  int most_partials() const;
  // REQUIRES: the stream has been waited for.
  void Forget();

  // The device's copy of a batch's arrays.
  const BatchLayout& Rows(const BatchLayout& batch);
  // The plan of a pass's attention, or of a batch, a shape or tiles that were not announced. Its
  // call has the shape that it was planned for, as far as a plan depends on it.
  const PlannedAttention& Attention(const BatchLayout& batch, const AttentionShape& shape,
                                    const AttentionLimits& limits);
  // The device's copy of an index array, which may be one of a pass's.
  const int32_t* Indices(const int32_t* host, int count);
  // Any other small array, until Forget.
  template <class T>
  const T* Send(std::span<const T> host) {
    const T* device = ring_.Add(host.data(), host.size());
    ring_.Send();
    return device;
  }

 private:
  // A batch and the attention of those of its layers that have one window.
  struct Part {
    const BatchLayout* batch = nullptr;
    AttentionShape shape;
  };
  struct Pass {
    BatchLayout host, device;
    PlannedAttention attention;
    int tile_limit = 0;  // that it was planned for
  };

  const Pass* Find(const BatchLayout& batch) const;
  // Plans the parts, sends them to `block` and makes passes of them; the key.
  GraphKey Place(std::span<const Part> parts, const AttentionLimits& limits, bool round_up,
                 Scratch* block, std::vector<Pass>* passes);
  BatchLayout SendRows(const BatchLayout& batch);

  const Stream& stream_;
  UploadRing ring_;  // of ops outside of passes
  PinnedStaging staging_;
  Scratch block_, outside_block_;  // arrays of passes, of attention outside of them
  GraphKey key_;
  std::vector<Pass> passes_, outside_;
  BatchLayout outside_rows_;
  std::vector<AttentionPlan> plans_;  // of Place
};

}  // namespace outrider
