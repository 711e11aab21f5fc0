// Log probabilities of tokens in the formats of OpenAI's and vLLM's answers.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "common/base/types.h"
#include "common/text/tokenizer.h"
#include "verifier/engine/logprobs.h"

namespace outrider {

// A token of an answer. The first one of a prompt has no log probabilities.
struct AnswerToken {
  TokenId id = 0;
  const TokenLogprobs* logprobs = nullptr;
};

// JSON has no infinity, so the minimum is -9999, as in vLLM.
float FiniteLogprob(float logprob);

// An entry of `logprobs.content` of a chat's choice. Its `top_logprobs` are the most likely tokens,
// among which the token itself need not be. REQUIRES: it has log probabilities.
nlohmann::ordered_json ChatEntry(const Tokenizer& tokenizer, const AnswerToken& token);

// Entries of a completion's `tokens`, `token_logprobs` and `top_logprobs`; the last has at most
// `alternatives` tokens and the token itself.
nlohmann::ordered_json TextEntry(const Tokenizer& tokenizer, const AnswerToken& token);
nlohmann::ordered_json LogprobEntry(const AnswerToken& token);
nlohmann::ordered_json TopEntry(const Tokenizer& tokenizer, const AnswerToken& token,
                                int alternatives);

// An entry of vLLM's `prompt_logprobs`: by token id the most likely tokens, at most `alternatives`,
// and the prompt's own; null for the first.
nlohmann::ordered_json PromptEntry(const Tokenizer& tokenizer, const AnswerToken& token,
                                   int alternatives);

// `logprobs` of an event, of a chat's choice and of a completion's. `offsets`: one per token.
nlohmann::ordered_json ChatLogprobs(const Tokenizer& tokenizer,
                                    std::span<const AnswerToken> tokens);
nlohmann::ordered_json CompletionLogprobs(const Tokenizer& tokenizer,
                                          std::span<const AnswerToken> tokens,
                                          std::span<const int64_t> offsets, int alternatives);

}  // namespace outrider
