// A request's sampling parameters, in the order in which they are applied.
#pragma once

#include <utility>
#include <vector>

#include "common/base/shared_value.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/spec/grammar_source.h"
#include "common/spec/row_sampling.h"

namespace outrider {

// The most entries of `logit_bias`, each of which is added to every logits row.
inline constexpr int kMaxLogitBias = 1024;
inline constexpr int kMaxAllowedTokens = 1 << 16;
// The most bad words, each of which is compared with the tokens before every row.
inline constexpr int kMaxBadWords = 512;
inline constexpr int kMaxBadWordTokens = 64;  // per word

// Applied in this order: repetition, frequency and presence penalty, logit bias, temperature,
// top-k, top-p, min-p (Hugging Face's order; vLLM's V1 engine applies min-p before top-k). From the
// bias on, tokens that are not allowed or would complete a bad word have probability 0.
struct SamplingParams {
  float temperature = 1.f;         // 0: greedy (the argmax, lowest id on ties)
  int top_k = 0;                   // 0: off
  float top_p = 1.f;               // (0, 1]; 1: off
  float min_p = 0.f;               // [0, 1]; 0: off
  float repetition_penalty = 1.f;  // > 0; over prompt and output (Keskar et al. 2019, section 4.1)
  float presence_penalty = 0.f;    // over the output, as OpenAI's API defines it
  float frequency_penalty = 0.f;   // over the output
  std::vector<std::pair<TokenId, float>> logit_bias = {};  // added to the logit
  SharedList<TokenId> allowed_tokens = {};  // only these are sampled; empty: all are allowed
  // Token sequences that the output must not complete; the prompt does not count.
  SharedList<std::vector<TokenId>> bad_words = {};
  // The grammar of the output: tokens after which no valid text can follow also have probability 0.
  SharedValue<GrammarSource> grammar = {};
  friend bool operator==(const SamplingParams&, const SamplingParams&) = default;

  bool greedy() const { return temperature == 0.f; }
  bool has_penalties() const {
    return repetition_penalty != 1.f || presence_penalty != 0.f || frequency_penalty != 0.f;
  }
};

RowSampling RowSamplingOf(const SamplingParams& params);
// In ascending order of tokens, each once: a request may repeat a token, but a GPU adds biases in
// parallel.
std::vector<TokenBias> BiasesOf(const SamplingParams& params);
// The mask (MaskHolds) of `vocab_size` tokens without those that allowed_tokens and single-token
// bad words exclude. Empty if none is excluded.
std::vector<uint32_t> MaskOf(const SamplingParams& params, int vocab_size);

// kInvalidArgument names the field.
Status Validate(const SamplingParams& params, int vocab_size);

}  // namespace outrider
