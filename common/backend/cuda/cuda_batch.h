// A batch's arrays on the device, sent once however many ops read them, and with them the plan of
// its attention.
#pragma once

#include <cstdint>
#include <span>

#include "common/backend/backend.h"
#include "common/backend/cuda/attention_plan.h"
#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/attention.h"

namespace outrider {

class CudaBatch {
 public:
  explicit CudaBatch(const Stream* stream) : ring_(stream) {}

  // Keeps `batch` until Forget: its arrays do not change until then.
  void Begin(const BatchLayout& batch);
  // REQUIRES: the stream has been waited for.
  void Forget();

  // The device's copy of a batch's arrays, with an empty plan.
  const BatchLayout& Rows(const BatchLayout& batch);
  // The same with units, merges and paths; `plan` says how many. Without qkv, out and partials.
  AttentionCall Attention(const BatchLayout& batch, const AttentionShape& shape,
                          const AttentionLimits& limits, const AttentionPlan** plan);
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

  UploadRing ring_;
  bool begun_ = false;    // host_ was announced by Begin
  bool planned_ = false;  // plan_ and call_ are of host_ and shape_
  BatchLayout host_, device_;
  AttentionShape shape_;
  AttentionPlan plan_;
  AttentionCall call_;
};

}  // namespace outrider
