// Verifies a step's drafts where its logits are: what comes back to the host is a verdict a
// session.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/rounds.h"
#include "common/backend/verify_batch.h"

namespace outrider {

// Thread: the backend's owner.
class DeviceRules {
 public:
  // `stream`: the one that makes the logits. `vocab`: entries of a row; ids from `allowed` on are
  // never sampled. REQUIRES: 0 < allowed <= vocab <= 2^20.
  DeviceRules(const Stream* stream, int vocab, int allowed);

  // Enqueues everything, waiting only while its buffers still grow: one upload of the batch's
  // arrays, the warping of all rows, the rules, the copy of the verdicts. logits: device memory,
  // row r at r * stride; they become probabilities (kArgmax, kRace: the logits after penalties and
  // bias). REQUIRES: the verdicts of the batch before were waited for; trees and laws are valid as
  // common/spec/draft_tree.h has it.
  void Verify(const VerifyBatch& batch, float* logits, int64_t stride);

  // Waits for the device. In the order of the batch's sessions; until the next Verify.
  std::span<const DeviceVerdict> Verdicts();

 private:
  const Stream& stream_;
  const int vocab_, allowed_;
  UploadRing ring_;
  Scratch scratch_, matches_, device_verdicts_;
  std::unique_ptr<CudaBuffer> verdicts_;  // pinned
  int sessions_ = 0;
};

}  // namespace outrider
