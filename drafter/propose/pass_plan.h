// Which sessions go into the next forward pass, with how many tokens. Verifiers take turns, a
// session each, so that none waits for all of another's sessions.
//
// Thread: the drafting loop.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "drafter/propose/draft_sessions.h"
#include "drafter/propose/held_session.h"
#include "drafter/propose/session_lookahead.h"

namespace outrider {

// A session this close to its logits is drafting (a verdict to catch up with, the next token); one
// that is further away reads a prompt.
inline constexpr size_t kCatchUpTokens = 32;

// A session's share of a forward pass: some of the tokens that its KV misses, or the frontier of
// its draft.
struct PassShare {
  HeldSession* held = nullptr;
  SessionLookahead::Guess* guess = nullptr;  // of drafting ahead: its mirror, not the session's
  int tokens = 0;
  int logit_rows = 0;  // that are drawn from

  const Mirror& mirror() const { return guess == nullptr ? *held->mirror : *guess->mirror; }
  // Whether its hidden states are kept for training.
  bool recorded() const { return held->prompt.has_value() && mirror().session.for_training(); }
};

// Tokens of a forward pass.
struct PassLimits {
  int tokens = 256;          // of all sessions
  int session_tokens = 128;  // of one: a long prompt leaves room for drafts
};

// Shares of the sessions that draft. The session with the oldest plan goes first whatever it needs,
// so that none starves; then drafts before prompts, as a verdict waits for them and they are short.
std::vector<PassShare> PlanPass(DraftSessions& sessions, const PassLimits& limits);

// Reorders: the oldest plan of every connection, then the second of every connection, and so on.
void TakeTurns(std::vector<PassShare>& shares);

// Whether any of the sessions is further from its logits than kCatchUpTokens.
bool ReadsPrompt(std::span<const PassShare> shares);

}  // namespace outrider
