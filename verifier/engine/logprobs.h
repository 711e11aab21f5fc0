// Log probabilities of output tokens for those who ask: under the model's own distribution, the log
// softmax of the raw row of logits (temperature 1, before penalties, bias and filters), as vLLM's
// `raw_logprobs` and OpenAI's API have them. They look at rows, never at verdicts.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace outrider {

struct TokenLogprobs {
  float logprob = 0;  // of the token; -infinity for one that the model rules out
  int rank = 0;       // of the token: 1 + how many are more likely; 0 without a distribution
  // The most likely tokens, best first, ties by the lower id.
  std::vector<std::pair<TokenId, float>> top = {};
};

// Alternatives of a token at most: OpenAI's limit.
inline constexpr int kMaxTopLogprobs = 20;
// Log probabilities of a request's prompt: its tokens times 1 + the alternatives of each. They are
// held until the first output.
inline constexpr int64_t kMaxPromptLogprobs = 1 << 18;

// `row`: raw logits of the tokens that exist. A NaN counts as -infinity. O(row).
TokenLogprobs LogprobsOf(std::span<const float> row, TokenId token, int top);

}  // namespace outrider
