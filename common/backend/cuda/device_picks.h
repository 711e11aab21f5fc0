// Reads from a step's rows of logits, where they are, what is drafted from: some hundred entries a
// row come to the host in place of the row.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/picks.h"
#include "common/backend/draft_batch.h"

namespace outrider {

// Thread: the backend's owner.
class DevicePicks {
 public:
  // `stream`: the one that makes the logits.
  explicit DevicePicks(const Stream* stream);

  // Enqueues everything, waiting only while its buffers still grow: one upload of the batch's
  // arrays, one launch a kind of pick, one copy of what was read. rows [.., vocab]: device memory;
  // the batch's are overwritten, the others stay. REQUIRES: the picks of the batch before were
  // waited for; 0 < allowed <= vocab <= kMaxVerifiedVocab and count > 0 in every row.
  void Pick(const DraftBatch& batch, float* rows, int vocab);

  // Waits for the device. By row of the batch, until the next Pick.
  std::span<const PickedRow> Picked();
  // What Picked brings to the host.
  size_t bytes() const { return bytes_; }

 private:
  const Stream& stream_;
  UploadRing ring_;
  Scratch device_results_;
  std::unique_ptr<CudaBuffer> results_;  // pinned; headers, then entries
  std::vector<BatchedDraftRow> rows_;    // of the last batch
  std::vector<PickedRow> picked_;
  size_t bytes_ = 0;
};

}  // namespace outrider
