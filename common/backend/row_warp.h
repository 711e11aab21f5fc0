// What a row of logits is warped by, in words that host and device share. Meanings and ranges:
// SamplingParams (common/spec), of which the layers above make these.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

struct RowWarp {
  float temperature = 1.f;
  int32_t top_k = 0;
  float top_p = 1.f;
  float min_p = 0.f;
  float repetition_penalty = 1.f;
  float presence_penalty = 0.f;
  float frequency_penalty = 0.f;
};

// A token of the prompt or the output.
struct SeenToken {
  TokenId token = 0;
  int32_t in_output = 0;  // how often
};
struct TokenBias {
  TokenId token = 0;
  float bias = 0.f;
};

// Of SamplingParams.
template <class Params>
RowWarp RowWarpOf(const Params& params) {
  return {.temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .repetition_penalty = params.repetition_penalty,
          .presence_penalty = params.presence_penalty,
          .frequency_penalty = params.frequency_penalty};
}

// By rising token, each once: a request may name a token twice, a device adds its biases in
// parallel.
template <class Params>
std::vector<TokenBias> BiasesOf(const Params& params) {
  std::map<TokenId, float> sums;
  for (const auto& [token, bias] : params.logit_bias) sums[token] += bias;
  std::vector<TokenBias> biases;
  biases.reserve(sums.size());
  for (const auto& [token, bias] : sums) biases.push_back({.token = token, .bias = bias});
  return biases;
}

// Of Warper::Seen.
template <class Seen>
std::vector<SeenToken> SeenTokensOf(const Seen& seen) {
  std::vector<SeenToken> tokens;
  tokens.reserve(seen.size());
  for (const auto& [token, in_output] : seen) {
    tokens.push_back({.token = token, .in_output = in_output});
  }
  return tokens;
}

}  // namespace outrider
