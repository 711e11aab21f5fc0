// A batch's arrays on the device, sent once however many ops read them, and with them the plan of
// its attention.
#pragma once

#include <cstdint>
#include <span>

#include "common/backend/backend.h"
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
      : stream_(*stream), ring_(stream), pass_(stream), shape_() {}

  // Sends all that the ops of a pass read, in one copy. With `round_up`, passes of an equal key()
  // have their arrays at equal places and launch the same grids: those of attention are rounded up,
  // and how many of their blocks have work stands on the device. Keeps `batch` until Forget: its
  // arrays do not change until then.
  void BeginPass(const BatchLayout& batch, const AttentionShape& shape,
                 const AttentionLimits& limits, bool round_up);
  // What the work of the last pass depends on, beside the contents of its arrays.
  const GraphKey& key() const { return key_; }
  // REQUIRES: the stream has been waited for.
  void Forget();

  // The device's copy of a batch's arrays.
  const BatchLayout& Rows(const BatchLayout& batch);
  // Of the last pass, or of a batch, a shape or tiles that it was not begun with.
  const PlannedAttention& Attention(const BatchLayout& batch, const AttentionShape& shape,
                                    const AttentionLimits& limits);
  // The device's copy of an index array, which may be one of the batch's.
  const int32_t* Indices(const int32_t* host, int count);
  // Any other small array, until Forget.
  template <class T>
  const T* Send(std::span<const T> host) {
    const T* device = ring_.Add(host.data(), host.size());
    ring_.Send();
    return device;
  }

 private:
  bool Holds(const BatchLayout& batch) const {
    return begun_ && batch.positions == host_.positions;
  }
  void SendRows(const BatchLayout& batch);

  const Stream& stream_;
  UploadRing ring_;        // of ops outside of a pass
  PinnedStaging staging_;  // of passes; their arrays go to pass_
  Scratch pass_;
  GraphKey key_;
  bool begun_ = false;  // host_ was announced by BeginPass
  BatchLayout host_, device_;
  AttentionShape shape_;
  int tile_queries_ = 0;
  AttentionPlan plan_;
  PlannedAttention attention_;
};

}  // namespace outrider
