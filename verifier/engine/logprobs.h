// Log probabilities of output tokens for those who ask: under the model's own distribution, the log
// softmax of the raw row of logits (temperature 1, before penalties, bias and filters), as vLLM's
// `raw_logprobs` and OpenAI's API have them. They look at rows, never at verdicts.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace outrider {

struct TokenLogprobs {
  float logprob = 0;  // of the token; -infinity for one that the model rules out
  // The most likely tokens, best first, ties by the lower id.
  std::vector<std::pair<TokenId, float>> top;
};

// Alternatives of a token at most: OpenAI's limit.
inline constexpr int kMaxTopLogprobs = 20;

// `row`: raw logits of the tokens that exist. A NaN counts as -infinity. O(row).
TokenLogprobs LogprobsOf(std::span<const float> row, TokenId token, int top);

}  // namespace outrider
