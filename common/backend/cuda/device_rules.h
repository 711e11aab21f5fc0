// Verifies a step's drafts where its logits are: what comes back to the host is a verdict a
// session.
#pragma once

#include <cstdint>
#include <span>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/rounds.h"
#include "common/backend/verify_batch.h"

namespace outrider {

// Thread: the backend's owner.
class DeviceRules {
 public:
  // `stream`: the one that makes the logits.
  explicit DeviceRules(const Stream* stream);

  // Enqueues everything, waiting only while its buffers still grow: one upload of the batch's
  // arrays, the warping of its rows, the rules, one copy of what they say. rows: device memory; the
  // batch's become probabilities (kArgmax, kRace: the logits after penalties and bias), the others
  // stay. REQUIRES: the verdicts of the batch before were waited for; trees and laws are valid as
  // common/spec/draft_tree.h has it.
  void Verify(const VerifyBatch& batch, const LogitRows& rows);

  // Waits for the device. Until the next Verify.
  DeviceVerdicts Verdicts();
  // What Verdicts brings to the host.
  size_t bytes() const { return VerdictBytes() + rows_; }

 private:
  size_t VerdictBytes() const { return sessions_ * sizeof(DeviceVerdict); }

  const Stream& stream_;
  UploadRing ring_;
  Scratch scratch_, matches_, broken_;
  Scratch device_results_, results_;  // verdicts, then the acceptance of nodes; results_ pinned
  size_t sessions_ = 0, rows_ = 0;    // of the last batch
};

}  // namespace outrider
