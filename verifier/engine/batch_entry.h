// One sequence's part of a forward pass.
#pragma once

#include <cstdint>
#include <vector>

#include "common/model/model.h"
#include "verifier/engine/scheduler.h"
#include "verifier/engine/session.h"

namespace outrider {

struct BatchEntry {
  Session* session = nullptr;
  int pending = 0;              // tokens of its text that are computed
  bool ends_round = false;      // they include the last one: its draft is scored, its round decided
  std::vector<TokenId> tokens;  // of the text, then of the draft
  std::vector<int32_t> parents;  // of `tokens`; empty: a chain
  // Those whose logits are wanted: for the round, or of a prompt (prompt_logprobs.h).
  std::vector<int32_t> logit_rows;
  // Nodes of the draft for which no mask could be worked out within its limits: the round goes no
  // further than them.
  std::vector<int32_t> unmasked;

  int rows() const { return static_cast<int>(tokens.size()); }
};

// The part that `share` gives the session.
BatchEntry MakeBatchEntry(Session& session, const Share& share);

// As Model::Forward takes it; points into `entry`.
ForwardSequence ForwardOf(const BatchEntry& entry);

}  // namespace outrider
