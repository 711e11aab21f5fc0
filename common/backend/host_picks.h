// Picks entries of logits rows in host memory, for drafting.
#pragma once

#include <span>
#include <vector>

#include "common/backend/pick_batch.h"

namespace outrider {

// Thread: the owner.
class HostPicks {
 public:
  // Pick i reads row i of `rows` [batch.size(), vocab] and overwrites it. The result is indexed by
  // row and valid until the next call. REQUIRES: no chains; 0 < allowed <= vocab and count > 0 in
  // every pick.
  std::span<const PickedRow> Read(const PickBatch& batch, float* rows, int vocab);

 private:
  // Appends the row's entries to entries_.
  PickedRow ReadRow(const PickSpec& spec, const SamplingState& state, std::span<const TokenId> path,
                    std::span<float> row);
  float Measure(const PickSpec& spec, const SamplingState& state, std::span<const TokenId> path,
                std::span<const float> row);

  std::vector<RowEntry> entries_;
  std::vector<PickedRow> picked_;
  std::vector<float> measured_;  // scratch
};

}  // namespace outrider
