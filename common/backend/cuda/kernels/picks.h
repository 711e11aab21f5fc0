// Launcher of the kernels that read from logits rows what is drafted from.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/pick_batch.h"

namespace outrider {

struct PickHeader {
  int32_t entries = 0;
  float measure = 0;
  TokenId drawn = -1;
  int32_t broken = 0;  // 1: the row's logits are not finite
};

// A PickBatch on the device; all pointers are device memory.
struct PickArrays {
  const BatchedPick* rows = nullptr;
  const SeenToken* seen = nullptr;
  const TokenBias* biases = nullptr;
  const uint32_t* mask = nullptr;
  TokenId* path_tokens = nullptr;
  const int32_t* path_parents = nullptr;  // -1, 0, 1, .. as far as the longest path goes

  float* logits = nullptr;  // rows of `vocab`
  int vocab = 0;
  int count = 0;                       // of rows
  bool races = false, others = false;  // whether there are rows of kRace, of other picks

  PickHeader* headers = nullptr;  // [count]
  RowEntry* entries = nullptr;
  TokenId* drawn = nullptr;  // [count], of chains
};

// One block a row. Rows of kDistribution become what LaunchSampleRows makes of them (up to
// `allowed`), those of other picks are left with penalties and bias applied. kTop gives what
// TopTokens gives, kRace what RaceOrder gives (row_sampling.h), but for arrivals within rounding of
// each other. What is read from a row depends on that row alone.
cudaError_t LaunchPickRows(const PickArrays& arrays, cudaStream_t stream);

// After it, where the rows are those of chains: draws from what was picked, kDistribution by
// MakeDraftDistribution and SampleDraftDistribution, else the first token. Writes it as `drawn` and
// onto the chain's path.
cudaError_t LaunchDrawRows(const PickArrays& arrays, cudaStream_t stream);

}  // namespace outrider
