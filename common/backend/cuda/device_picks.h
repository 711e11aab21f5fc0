// Reads from a step's rows of logits, where they are, what is drafted from: some hundred entries a
// row come to the host in place of the row.
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
  // `stream`: the one that makes the logits.
  explicit DevicePicks(const Stream* stream);

  // Enqueues everything, waiting only while its buffers still grow: one upload of the batch's
  // arrays, one launch a kind of pick, one copy of what was read. rows [.., vocab]: device memory;
  // the batch's are overwritten, the others stay. REQUIRES: the picks of the batch before were
  // waited for; 0 < allowed <= vocab <= kMaxVocabulary and count > 0 in every row.
  void Pick(const PickBatch& batch, float* rows, int vocab);

  // The same for chains: Draw, after the pass that has made a depth's rows [chains, vocab], reads
  // and draws that depth, the first one first; CopyBack, after the last one, copies what was read.
  // With equal keys, Draw launches the same.
  void BeginChains(const PickBatch& batch, float* rows, int vocab);
  const GraphKey& key() const { return key_; }
  void Draw(int depth);
  void CopyBack();
  // Device memory: what the last Draw has drawn, by chain.
  const TokenId* drawn() const { return arrays_.drawn; }

  // Waits for the device. By row of the batch, of chains by depth and then by chain; until the next
  // Pick or BeginChains.
  std::span<const PickedRow> Picked();
  // What Picked brings to the host.
  size_t bytes() const { return bytes_; }

 private:
  // Sends rows_ and the batch's other arrays.
  void Send(const PickBatch& batch, float* rows, int vocab);

  const Stream& stream_;
  UploadRing ring_;
  Scratch device_results_, results_;  // headers, then entries; results_ pinned
  Scratch drawn_;
  PickArrays arrays_;              // of all rows_
  int chains_ = 0, depths_ = 0;    // of the last BeginChains
  std::vector<BatchedPick> rows_;  // of the last batch; chains: depth by depth
  std::vector<PickedRow> picked_;
  size_t bytes_ = 0;
  GraphKey key_;
};

}  // namespace outrider
