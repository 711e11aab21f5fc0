// A VerifyBatch on the device, with the memory that its verification works in.
#pragma once

#include <cstdint>

#include "common/backend/verify_batch.h"
#include "common/base/types.h"

namespace outrider {

// All pointers are device memory; `rows` counts nodes.
struct RoundArrays {
  const BatchedRound* rounds = nullptr;
  const SeenToken* seen = nullptr;
  const TokenBias* biases = nullptr;
  const int32_t* round_of = nullptr;  // by node, as all of these
  const int32_t* parents = nullptr;
  const int32_t* depths = nullptr;
  const TokenId* tokens = nullptr;
  const int32_t* draws_begin = nullptr;  // [rows + 1]
  const int32_t* law_begin = nullptr;    // [rows + 1]
  const int32_t* draws = nullptr;
  const TokenId* law_ids = nullptr;
  const uint32_t* law_weights = nullptr;

  float* logits = nullptr;  // rows of `vocab`; those of the sessions become probabilities
  int vocab = 0;
  int allowed = 0;  // ids from here on are never sampled
  int rows = 0, sessions = 0;
  bool races = false, others = false;  // whether there are rounds of kRace, of other rules

  TokenId* matches = nullptr;  // [rows]: the target's own token, of kArgmax and kRace
  uint8_t* broken = nullptr;   // [rows]: 1 where the row's logits are not finite
  unsigned char* scratch = nullptr;
  DeviceVerdict* verdicts = nullptr;  // [sessions]
  uint8_t* acceptance = nullptr;      // [rows]
};

}  // namespace outrider
