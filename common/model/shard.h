// Tensor parallelism: what each of several ranks holds of a model (Shoeybi et al. 2019,
// "Megatron-LM", section 3). Of every layer a rank has some heads and a part of the MLP's
// intermediate size, in a mixture of each expert's, so that each half of a layer ends with a sum
// over ranks. Of the output matrix it has some rows. The embedding, norms and routers are whole on
// every rank.
//
// Thread: any.
#pragma once

#include <cstdint>

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/tensor/slice.h"

namespace outrider {

inline constexpr int kMaxRanks = 16;

struct Shard {
  int rank = 0;  // 0 leads: it adds biases of sums, and has the logits
  int ranks = 1;

  bool leads() const { return rank == 0; }
  // This rank's part of `size` things. REQUIRES: `ranks` divides them.
  Range Of(int64_t size) const { return {size / ranks * rank, size / ranks}; }
  // Its heads of keys and values. Where there are fewer than ranks, several ranks have the same.
  Range KvHeadsOf(const ModelConfig& config) const;
  // Its rows of the output matrix: as many on each rank but the last, which has the rest.
  Range LogitsOf(const ModelConfig& config) const;
};

// Whether a model can be divided among so many ranks. kInvalidArgument for a number that does not
// divide its heads or intermediate size, kUnimplemented for a model with norms over all heads.
Status CheckRanks(const ModelConfig& config, int ranks);

// The model that a rank computes: its heads and part of the intermediate size. The vocabulary stays
// whole. REQUIRES: CheckRanks.
ModelConfig ShardOf(const ModelConfig& config, const Shard& shard);

}  // namespace outrider
