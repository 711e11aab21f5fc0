// Chooses which sessions go into the next forward pass, and with how many tokens. Verifiers take
// turns session by session, so that none waits for all of another's sessions.
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
// that is further away is reading a prompt.
inline constexpr size_t kCatchUpTokens = 32;

// A session's share of a forward pass: some of its tokens without KV, or the frontier of its draft.
struct PassShare {
  HeldSession* held = nullptr;
  // in lookahead drafting: its mirror is used, not the session's
  SessionLookahead::Guess* guess = nullptr;
  int tokens = 0;
  int logit_rows = 0;  // rows to sample from

  const Mirror& mirror() const { return guess == nullptr ? *held->mirror : *guess->mirror; }
  // Whether its hidden states are kept for training.
  bool recorded() const { return held->prompt.has_value() && mirror().session.for_training(); }
};

// Limits on the tokens of a forward pass.
struct PassLimits {
  int tokens = 256;          // over all sessions
  int session_tokens = 128;  // of one session; leaves room for drafts beside a long prompt
};

// Shares of the drafting sessions. The session with the oldest plan goes first whatever it needs,
// so that none starves; then drafts go before prompts, because verdicts wait for them and they are
// short.
std::vector<PassShare> PlanPass(DraftSessions& sessions, const PassLimits& limits);

// Reorders: the oldest plan of every connection, then the second of every connection, and so on.
void TakeTurns(std::vector<PassShare>& shares);

// Whether any of the sessions is further from its logits than kCatchUpTokens.
bool ReadsPrompt(std::span<const PassShare> shares);

}  // namespace outrider
