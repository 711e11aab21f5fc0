// One sequence's share of a forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/model.h"
#include "verifier/engine/scheduler.h"
#include "verifier/engine/session.h"

namespace outrider {

struct BatchEntry {
  Session* session = nullptr;
  int pending = 0;  // tokens of its text to compute
  // `pending` reaches the text's end: its draft is scored, its round decided
  bool ends_round = false;
  std::vector<TokenId> tokens;   // text tokens, then draft tokens
  std::vector<int32_t> parents;  // parents of `tokens`; empty: a chain
  // Tokens whose logits are needed, by the round or by prompt_logprobs.h.
  std::vector<int32_t> logit_rows;
  // Draft nodes whose mask could not be computed within its limits. The round ends at them.
  std::vector<int32_t> unmasked;

  int rows() const { return static_cast<int>(tokens.size()); }
};

// The entry for the session's `share`.
BatchEntry MakeBatchEntry(Session& session, const Share& share);

// Whether its logits rows are copied to the host, for log probabilities.
bool CopiesLogits(const BatchEntry& entry);

// The argument of Model::Forward. It points into `entry`.
ForwardSequence ForwardOf(const BatchEntry& entry);

}  // namespace outrider
