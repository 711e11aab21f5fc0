// Launches the kernels that pick entries for drafting from logits rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/kernels/pick_parts.h"
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

  // For rows that are read in parts (pick_parts.h).
  PickPart* parts = nullptr;       // [kRowsInParts, parts_of_row]
  unsigned char* found = nullptr;  // [kRowsInParts, parts_of_row * kFoundBytesOfPart]
  int parts_of_row = 0;
  bool parts_of_races = false, parts_of_others = false;  // whether there are such rows
  bool parts_have_summaries = false;                     // whether picks of such rows need them

  PickHeader* headers = nullptr;  // [count]
  RowEntry* entries = nullptr;
  TokenId* sampled = nullptr;  // [count], for chains
};

// Overwrites the rows. kDistribution gives the largest entries of the distribution that
// LaunchSampleRows makes (up to `allowed`), kTop the result of TopTokens, kRace that of RaceOrder
// (row_sampling.h), except for arrivals within rounding of each other. The picks of a row depend on
// that row alone.
cudaError_t LaunchPickRows(const PickArrays& arrays, cudaStream_t stream);

// Called after it if the rows are those of chains: samples from what was picked, for kDistribution
// by MakeDraftDistribution and SampleDraftDistribution, otherwise takes the first token. Writes the
// token to `sampled` and appends it to the chain's path.
cudaError_t LaunchSampleTokens(const PickArrays& arrays, cudaStream_t stream);

}  // namespace outrider
