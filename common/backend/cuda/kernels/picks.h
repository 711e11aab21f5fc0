// Launches the kernels that pick entries for drafting from logits rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/pick_batch.h"

namespace outrider {

struct PickHeader {
  int32_t entries = 0;
  float measure = 0;
  TokenId sampled = -1;
  int32_t broken = 0;  // 1: the row's logits are not finite
};

// A PickBatch on the device; all pointers are device memory.
struct PickArrays {
  const BatchedPick* rows = nullptr;
  const SeenToken* seen = nullptr;
  const TokenBias* biases = nullptr;
  const uint32_t* mask = nullptr;
  TokenId* path_tokens = nullptr;
  const int32_t* path_parents = nullptr;  // -1, 0, 1, ... up to the length of the longest path

  float* logits = nullptr;  // rows of `vocab`
  int vocab = 0;
  int count = 0;                       // number of rows
  bool races = false, others = false;  // whether there are rows of kRace, and of other picks

  PickHeader* headers = nullptr;  // [count]
  RowEntry* entries = nullptr;
  TokenId* sampled = nullptr;  // [count], for chains
};

// One block per row. Rows of kDistribution become the distributions that LaunchSampleRows makes (up
// to `allowed`); other rows are left with penalties and bias applied. kTop gives the result of
// TopTokens, kRace that of RaceOrder (row_sampling.h), except for arrivals within rounding of each
// other. The picks of a row depend on that row alone.
cudaError_t LaunchPickRows(const PickArrays& arrays, cudaStream_t stream);

// Called after it if the rows are those of chains: samples from what was picked, for kDistribution
// by MakeDraftDistribution and SampleDraftDistribution, otherwise takes the first token. Writes the
// token to `sampled` and appends it to the chain's path.
cudaError_t LaunchSampleTokens(const PickArrays& arrays, cudaStream_t stream);

}  // namespace outrider
