// Log probabilities in the shapes of OpenAI's and vLLM's answers.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "common/base/types.h"
#include "common/text/tokenizer.h"
#include "verifier/engine/logprobs.h"

namespace outrider {

// A token of an answer. The first one of a prompt has no log probabilities.
struct AnswerToken {
  TokenId id = 0;
  std::optional<TokenLogprobs> logprobs;
};

// JSON has no infinity: -9999, vLLM's number for it, is the least.
float FiniteLogprob(float logprob);

// `logprobs` of a chat's choice. Where alternatives are told, the token itself is among them.
nlohmann::ordered_json ChatLogprobs(const Tokenizer& tokenizer,
                                    std::span<const AnswerToken> tokens);

// `logprobs` of a completion's choice, with `alternatives` of each token at most and the token
// itself. `offset`: characters of the text before the tokens; moves on past them. `skip_special`:
// special tokens are not in that text.
nlohmann::ordered_json CompletionLogprobs(const Tokenizer& tokenizer,
                                          std::span<const AnswerToken> tokens, int alternatives,
                                          bool skip_special, int64_t* offset);

// vLLM's `prompt_logprobs`: by token id the likeliest tokens, `alternatives` at most, and the
// prompt's own; null for the first.
nlohmann::ordered_json PromptLogprobs(const Tokenizer& tokenizer,
                                      std::span<const AnswerToken> tokens, int alternatives);

}  // namespace outrider
