// Decides a step's rounds where its logits are: what comes back to the host is a verdict a round.
#pragma once

#include <cstdint>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/kernels/rounds.h"
#include "common/rules/round_batch.h"

namespace outrider {

// Thread: the backend's owner.
class DeviceRounds {
 public:
  // `stream`: the one that makes the logits.
  explicit DeviceRounds(const Stream* stream);

  // Enqueues everything, waiting only while its buffers still grow: one upload of the batch's
  // arrays, the sampling of its rows, the rules, one copy of what they say. rows: device memory;
  // they become probabilities, or logits after penalties and bias where a round is decided by
  // those. REQUIRES: the decisions of the batch before were waited for; drafts are valid as
  // common/spec/draft_tree.h has it.
  void Decide(const RoundBatch& batch, const LogitRows& rows);

  // Waits for the device. Valid until the next Decide.
  Decisions Decided();
  // What Decided brings to the host.
  size_t bytes() const { return rounds_ * sizeof(DecidedRound) + nodes_; }

 private:
  const Stream& stream_;
  UploadRing ring_;
  Scratch scratch_, matches_, broken_;
  Scratch device_results_, results_;  // decided rounds, then acceptance of nodes; results_ pinned
  size_t rounds_ = 0, nodes_ = 0;     // of the last batch
};

}  // namespace outrider
