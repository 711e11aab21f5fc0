#include "common/spec/sampling_params.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace outrider {
namespace {

Status Refuse(const char* field, float value, const char* range) {
  char text[40];
  // With enough digits to distinguish this float from its neighbours: 1.0000001 is not shown as 1.
  const std::to_chars_result end = std::to_chars(std::begin(text), std::end(text), value);
  return InvalidArgument(std::string(field) + " is " + std::string(text, end.ptr) + ", must be " +
                         range);
}

Status CheckToken(const char* field, TokenId id, int vocab_size) {
  if (id >= 0 && id < vocab_size) return Status();
  return InvalidArgument(std::string(field) + ": token id " + std::to_string(id) +
                         " is not in the vocabulary of " + std::to_string(vocab_size));
}

Status CheckMasks(const SamplingParams& p, int vocab_size) {
  if (p.grammar.has_value()) OUTRIDER_TRY(Validate(*p.grammar));
  OUTRIDER_TRY(CheckAtMost("allowed_token_ids", std::ssize(p.allowed_tokens), kMaxAllowedTokens));
  for (const TokenId id : p.allowed_tokens) {
    OUTRIDER_TRY(CheckToken("allowed_token_ids", id, vocab_size));
  }
  OUTRIDER_TRY(CheckAtMost("bad_words", std::ssize(p.bad_words), kMaxBadWords));
  for (const std::vector<TokenId>& word : p.bad_words) {
    if (word.empty()) return InvalidArgument("bad_words: a word without tokens");
    OUTRIDER_TRY(CheckAtMost("bad_words", std::ssize(word), kMaxBadWordTokens, "tokens in one"));
    for (const TokenId id : word) OUTRIDER_TRY(CheckToken("bad_words", id, vocab_size));
  }
  const std::vector<uint32_t> mask = MaskOf(p, vocab_size);
  for (TokenId id = 0; id < vocab_size && !mask.empty(); ++id) {
    if (MaskHolds(mask.data(), id)) return Status();
  }
  if (mask.empty()) return Status();
  return InvalidArgument("bad_words: leave none of the tokens that may be sampled");
}

}  // namespace

RowSampling RowSamplingOf(const SamplingParams& params) {
  return {.temperature = params.temperature,
          .top_k = params.top_k,
          .top_p = params.top_p,
          .min_p = params.min_p,
          .repetition_penalty = params.repetition_penalty,
          .presence_penalty = params.presence_penalty,
          .frequency_penalty = params.frequency_penalty};
}

std::vector<TokenBias> BiasesOf(const SamplingParams& params) {
  std::map<TokenId, float> sums;
  for (const auto& [token, bias] : params.logit_bias) sums[token] += bias;
  std::vector<TokenBias> biases;
  biases.reserve(sums.size());
  for (const auto& [token, bias] : sums) biases.push_back({.token = token, .bias = bias});
  return biases;
}

std::vector<uint32_t> MaskOf(const SamplingParams& params, int vocab_size) {
  const bool all = params.allowed_tokens.empty();
  std::vector<uint32_t> mask(static_cast<size_t>(MaskWords(vocab_size)), all ? ~0u : 0u);
  const auto bit = [](TokenId token) { return 1u << (token & 31); };
  for (const TokenId token : params.allowed_tokens) {
    mask[static_cast<size_t>(token >> 5)] |= bit(token);
  }
  bool any = !all;
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.size() != 1) continue;
    mask[static_cast<size_t>(word[0] >> 5)] &= ~bit(word[0]);
    any = true;
  }
  if (!any) mask.clear();
  return mask;
}

Status Validate(const SamplingParams& p, int vocab_size) {
  // Comparisons are written so that they fail for NaN.
  if (!(p.temperature >= 0.f) || !std::isfinite(p.temperature)) {
    return Refuse("temperature", p.temperature, "finite and at least 0");
  }
  if (p.top_k < 0) {
    return InvalidArgument("top_k is " + std::to_string(p.top_k) +
                           ", must be at least 1, or 0 to keep all tokens");
  }
  if (!(p.top_p > 0.f && p.top_p <= 1.f)) return Refuse("top_p", p.top_p, "in (0, 1]");
  if (!(p.min_p >= 0.f && p.min_p <= 1.f)) return Refuse("min_p", p.min_p, "in [0, 1]");
  if (!(p.repetition_penalty > 0.f) || !std::isfinite(p.repetition_penalty)) {
    return Refuse("repetition_penalty", p.repetition_penalty, "finite and above 0");
  }
  if (!(std::fabs(p.presence_penalty) <= 2.f)) {
    return Refuse("presence_penalty", p.presence_penalty, "in [-2, 2]");
  }
  if (!(std::fabs(p.frequency_penalty) <= 2.f)) {
    return Refuse("frequency_penalty", p.frequency_penalty, "in [-2, 2]");
  }
  OUTRIDER_TRY(CheckAtMost("logit_bias", std::ssize(p.logit_bias), kMaxLogitBias));
  for (const auto& [id, bias] : p.logit_bias) {
    const std::string field = "logit_bias of token " + std::to_string(id);
    if (id < 0 || id >= vocab_size) {
      return InvalidArgument(field + ": the vocabulary has " + std::to_string(vocab_size) +
                             " tokens");
    }
    if (!(std::fabs(bias) <= 100.f)) return Refuse(field.c_str(), bias, "in [-100, 100]");
  }
  return CheckMasks(p, vocab_size);
}

}  // namespace outrider
