#include "common/spec/sampling_params.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <string>

namespace outrider {
namespace {

Status Refuse(const char* field, float value, const char* range) {
  char text[40];
  // As many digits as tell this float from its neighbours: 1.0000001 is not shown as 1.
  const std::to_chars_result end = std::to_chars(std::begin(text), std::end(text), value);
  return InvalidArgument(std::string(field) + " is " + std::string(text, end.ptr) + ", must be " +
                         range);
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

Status Validate(const SamplingParams& p, int vocab_size) {
  // Comparisons are written so that NaN fails them.
  if (!(p.temperature >= 0.f) || !std::isfinite(p.temperature)) {
    return Refuse("temperature", p.temperature, "finite and at least 0");
  }
  if (p.top_k < 0) {
    return InvalidArgument("top_k is " + std::to_string(p.top_k) + ", must be at least 0");
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
  return Status();
}

}  // namespace outrider
