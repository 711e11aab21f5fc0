// Picks entries for drafting from a step's logits rows where they are in memory: a few hundred
// entries per row are copied to the host instead of the row.
//
//   picks.Pick(batch, logits, vocab);                  // enqueues, returns at once
//   for (const PickedRow& row : picks.Picked()) ...    // waits
//
// Chains keep their tokens on the device from one pass to the next:
//
//   picks.BeginChains(batch, logits, vocab);           // after the pass of depth 0
//   for (int depth = 0; depth < depths; ++depth) {
//     if (depth > 0) RunPass(picks.sampled());         // overwrites logits [chains, vocab]
//     picks.SampleDepth(depth);
//   }
//   picks.CopyBack();
//   picks.Picked();
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/backend/cuda/device_memory.h"
#include "common/backend/cuda/graph_cache.h"
#include "common/backend/cuda/kernels/picks.h"
#include "common/backend/pick_batch.h"

namespace outrider {

// Thread: the backend's owner.
class DevicePicks {
 public:
  // `stream` is the one that computes the logits.
  explicit DevicePicks(const Stream* stream);

  // Enqueues everything, and waits only while its buffers still grow: one upload of the batch's
  // arrays, one launch per kind of pick (more for long rows: kernels/pick_parts.h), one copy of the
  // result. rows [.., vocab] is device memory; the batch's rows are overwritten, the others are
  // not. REQUIRES: the previous batch's picks have been waited for; 0 < allowed <= vocab <=
  // kMaxVocabulary and count > 0 in every pick.
  void Pick(const PickBatch& batch, float* rows, int vocab);

  // The same for chains: SampleDepth, after the pass that computes a depth's rows [chains, vocab],
  // picks and samples for that depth, starting with the first; CopyBack, after the last depth,
  // copies the results. With equal keys, SampleDepth launches the same kernels on the same memory
  // of this class: when that grows, only the graphs that refer to it are captured again.
  void BeginChains(const PickBatch& batch, float* rows, int vocab);
  const GraphKey& key() const { return key_; }
  void SampleDepth(int depth);
  void CopyBack();
  // Device memory: the tokens that the last SampleDepth sampled, by chain.
  const TokenId* sampled() const { return arrays_.sampled; }

  // Waits for the device. Results are by row of the batch, for chains by depth and then by chain;
  // valid until the next Pick or BeginChains.
  std::span<const PickedRow> Picked();
  // Bytes that Picked copies to the host.
  size_t bytes() const { return bytes_; }

 private:
  // Copies rows_ and the batch's other arrays to the device.
  void Upload(const PickBatch& batch, float* rows, int vocab);
  void PlaceParts();

  const Stream& stream_;
  // Graphs do refer to this device memory, but none is found again after it has moved (key_).
  UploadRing ring_;
  Scratch device_results_, results_;  // headers, then entries; results_ pinned
  Scratch sampled_, parts_;
  PickArrays arrays_;              // for all rows_
  int chains_ = 0, depths_ = 0;    // of the last BeginChains
  std::vector<BatchedPick> rows_;  // of the last batch; for chains, depth by depth
  std::vector<PickedRow> picked_;
  size_t bytes_ = 0;
  GraphKey key_;
};

}  // namespace outrider
