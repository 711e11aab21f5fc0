// Log probabilities of a prompt's tokens, for requests that ask (echo with logprobs,
// prompt_logprobs). Such a prompt is computed without the prefix cache, in steps whose rows of
// logits come to the host and stay apart from the rows that rounds are decided over; the prompt's
// last token begins the first round, as of any other.
//
// Thread: the engine thread.
#pragma once

#include <optional>
#include <span>

#include "verifier/engine/batch_entry.h"
#include "verifier/engine/session.h"

namespace outrider {

// Rows of logits that one step computes for prompts, of all sessions: 8 MiB, one at least. The
// engine thread reads them, and every session waits meanwhile. So beside sessions that want other
// tokens they are no more than are read in a quarter of `others_step_seconds`, what a forward pass
// takes of late; nullopt: there are no such sessions.
int PromptRowsOfStep(int vocab_size, std::optional<double> others_step_seconds);

// Tokens of the session's prompt whose log probabilities are still wanted: 0 once it has its first
// output.
int PromptLogprobsLeft(const Session& session);

// Asks, in an entry that ends no round, for the rows that tell of prompt tokens. The entry's tokens
// begin at session.computed.
void AddPromptRows(BatchEntry& entry);

// Whether it asks for them.
inline bool HasPromptRows(const BatchEntry& entry) {
  return !entry.ends_round && !entry.logit_rows.empty();
}

// What the rows of such an entry, [logit_rows, vocab_size], say of the session's prompt; ids from
// `allowed` on do not exist. Call before session.computed moves on.
void TakePromptRows(const BatchEntry& entry, std::span<const float> rows, int vocab_size,
                    int allowed);

}  // namespace outrider
