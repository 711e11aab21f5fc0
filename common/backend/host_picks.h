// Reads, for drafting, from rows of logits in host memory.
#pragma once

#include <span>
#include <vector>

#include "common/backend/pick_batch.h"

namespace outrider {

// Thread: the owner.
class HostPicks {
 public:
  // Row i of `rows` [batch.size(), vocab] is read by pick i, and overwritten. By row of the batch,
  // until the next call. REQUIRES: no chains; 0 < allowed <= vocab and count > 0 in every pick.
  std::span<const PickedRow> Read(const PickBatch& batch, float* rows, int vocab);

 private:
  // Appends its entries.
  PickedRow ReadRow(const PickSpec& spec, const SamplingState& state, std::span<const TokenId> path,
                    std::span<float> row);
  float Measure(const PickSpec& spec, const SamplingState& state, std::span<const TokenId> path,
                std::span<const float> row);

  std::vector<RowEntry> entries_;
  std::vector<PickedRow> picked_;
  std::vector<float> measured_;  // scratch
};

}  // namespace outrider
