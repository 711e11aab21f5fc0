// Verifies a step's rounds where its logits are: only one verdict per round is copied to the host.
#pragma once

#include <cstdint>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/rounds.h"
#include "common/rules/round_batch.h"

namespace outrider {

// Thread: the backend's owner.
class DeviceRounds {
 public:
  // `stream` is the one that computes the logits.
  explicit DeviceRounds(const Stream* stream);

  // Enqueues everything, and waits only while its buffers still grow: one upload of the batch's
  // arrays, the sampling kernels on its rows, the rules, and one copy of the result. rows: device
  // memory; they become probabilities, or logits after penalties and bias if a round's rule uses
  // those. REQUIRES: the previous batch's decisions have been waited for; drafts are valid as
  // defined in common/spec/draft_tree.h.
  void Decide(const RoundBatch& batch, const LogitRows& rows);

  // Waits for the device. Valid until the next Decide.
  Decisions Decided();
  // Bytes that Decided copies to the host.
  size_t bytes() const { return rounds_ * sizeof(DecidedRound) + nodes_; }

 private:
  const Stream& stream_;
  UploadRing ring_;
  Scratch scratch_, matches_, broken_;
  Scratch device_results_, results_;  // decided rounds, then acceptance per node; results_ pinned
  size_t rounds_ = 0, nodes_ = 0;     // of the last batch
};

}  // namespace outrider
