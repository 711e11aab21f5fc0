// A RoundBatch on a GPU, with the memory for its verification.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/rules/round_batch.h"

namespace outrider {

// All pointers are device memory.
struct DeviceRoundArrays {
  RoundArrays batch;
  int rounds = 0, nodes = 0;

  float* logits = nullptr;  // [nodes, vocab]; for sampling rules they become probabilities
  int vocab = 0;
  int allowed = 0;                     // ids from here on are never sampled
  bool races = false, others = false;  // whether there are rounds of the race, and of other kinds

  TokenId* matches = nullptr;  // [nodes]: the token that the target itself chooses, unless sampled
  uint8_t* broken = nullptr;   // [nodes]: 1 if the row's logits are not finite
  unsigned char* scratch = nullptr;
  DecidedRound* decided = nullptr;  // [rounds]
  uint8_t* acceptance = nullptr;    // [nodes]
};

}  // namespace outrider
