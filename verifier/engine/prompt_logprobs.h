// Log probabilities of a prompt's tokens, for requests with echo and logprobs, or prompt_logprobs.
// Such a prompt is computed without the prefix cache, in steps whose logits rows come to the host,
// apart from the rows of rounds. The prompt's last token begins the first round, as in any other
// request.
//
// Thread: the engine thread.
#pragma once

#include <optional>
#include <span>

#include "verifier/engine/batch_entry.h"
#include "verifier/engine/session.h"

namespace outrider {

// The most logits rows that one step computes for prompts, over all sessions: 8 MiB, at least one
// row. The engine thread reads them while every session waits. If other sessions decode, they are
// no more than it reads in a quarter of `others_step_seconds`, the recent time of a forward pass;
// nullopt: no others decode.
int PromptRowsOfStep(int vocab_size, std::optional<double> others_step_seconds);

// Tokens of the session's prompt whose log probabilities are still needed; 0 after the first
// output.
int PromptLogprobsLeft(const Session& session);

// Requests the rows of prompt tokens in an entry that ends no round. The entry's tokens begin at
// session.computed.
void AddPromptRows(BatchEntry& entry);

// Whether it requests such rows.
inline bool HasPromptRows(const BatchEntry& entry) {
  return !entry.ends_round && !entry.logit_rows.empty();
}

// Stores the log probabilities from such an entry's rows, [logit_rows, vocab_size]; ids from
// `allowed` on do not exist. Call before session.computed advances.
void TakePromptRows(const BatchEntry& entry, std::span<const float> rows, int vocab_size,
                    int allowed);

}  // namespace outrider
