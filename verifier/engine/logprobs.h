// Log probabilities of output tokens under the model's own distribution: the log softmax of the raw
// logits row (temperature 1, before penalties, bias and filters), as in vLLM's `raw_logprobs` and
// OpenAI's API. They depend on logits rows, never on verdicts.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "common/base/types.h"

namespace outrider {

struct TokenLogprobs {
  float logprob = 0;  // of the token; -infinity if the model rules it out
  int rank = 0;       // 1 + the number of more likely tokens; 0 without a distribution
  // The most likely tokens, best first; the lower id first among equals.
  std::vector<std::pair<TokenId, float>> top = {};
};

// The most alternatives per token: OpenAI's limit.
inline constexpr int kMaxTopLogprobs = 20;
// Limit on the log probabilities of a request's prompt, its tokens times 1 + the alternatives of
// each. They are held until the first output.
inline constexpr int64_t kMaxPromptLogprobs = 1 << 18;

// `row`: raw logits of the existing tokens. NaN counts as -infinity. O(row).
TokenLogprobs LogprobsOf(std::span<const float> row, TokenId token, int top);

}  // namespace outrider
