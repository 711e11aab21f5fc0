// How a request samples: the field's usual transforms, in the order in which they are applied.
#pragma once

#include <utility>
#include <vector>

#include "common/base/shared_value.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/grammar_source.h"
#include "common/spec/row_sampling.h"

namespace outrider {

// Entries of `logit_bias` at most: each is added to every row of logits.
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxAllowedTokens = 1 << 16;
// Each is compared with the tokens before every row.
inline constexpr int kMaxBadWords = 512;
inline constexpr int kMaxBadWordTokens = 64;  // of one

// Applied in this order: repetition, frequency and presence penalty, logit bias, temperature,
// top-k, top-p, min-p (the order of vLLM and Hugging Face's samplers). Tokens that are not allowed
// or would complete a bad word have probability 0 from the bias on.
struct SamplingParams {
  float temperature = 1.f;         // 0: greedy (the argmax, lowest id on ties)
  int top_k = 0;                   // 0: off
  float top_p = 1.f;               // (0, 1]; 1: off
  float min_p = 0.f;               // [0, 1]; 0: off
  float repetition_penalty = 1.f;  // > 0; over prompt and output (Keskar et al. 2019, section 4.1)
  float presence_penalty = 0.f;    // over the output, as OpenAI's API defines it
  float frequency_penalty = 0.f;   // over the output
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // added to the logit
  SharedList<TokenId> allowed_tokens = {};  // no others are sampled; empty: all are allowed
  // Token sequences that the output never completes; of the output alone, not of the prompt.
  SharedList<std::vector<TokenId>> bad_words = {};
  // What the output must follow: tokens after which no text of it goes on have probability 0 too.
  SharedValue<GrammarSource> grammar = {};
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;

  bool greedy() const { return temperature == 0.f; }
  bool has_penalties() const {
    return repetition_penalty != 1.f || presence_penalty != 0.f || frequency_penalty != 0.f;
  }
};

RowSampling RowSamplingOf(const SamplingParams& params);
// By rising token, each once: a request may name a token twice, a GPU adds its biases in parallel.
std::vector<TokenBias> BiasesOf(const SamplingParams& params);
// What allowed_tokens and the bad words of one token leave of `vocab_size` tokens (MaskHolds).
// Empty where they leave all.
std::vector<uint32_t> MaskOf(const SamplingParams& params, int vocab_size);

// kInvalidArgument with the field named.
Status Validate(const SamplingParams& params, int vocab_size);

}  // namespace outrider
