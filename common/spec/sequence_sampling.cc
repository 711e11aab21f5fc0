#include "common/spec/sequence_sampling.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

SequenceSampling::SequenceSampling(const SamplingParams& params, int vocab_size, int allowed)
    : sampling_(RowSamplingOf(params)),
      biases_(BiasesOf(params)),
      vocab_size_(vocab_size),
      allowed_(allowed) {
  OUTRIDER_CHECK(allowed > 0 && allowed <= vocab_size);
}

void SequenceSampling::SuppressBefore(int min_output, std::vector<TokenId> tokens) {
  min_output_ = min_output;
  suppressed_ = std::move(tokens);
}

void SequenceSampling::ObservePrompt(std::span<const TokenId> tokens) {
  if (!sampling_.has_penalties()) return;
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab_size_) seen_.push_back({.token = token});
  }
  // What the output holds of a token comes first, so that it is the one that stays.
  std::sort(seen_.begin(), seen_.end(), [](const SeenToken& a, const SeenToken& b) {
    return a.token != b.token ? a.token < b.token : a.in_output > b.in_output;
  });
  const auto same = [](const SeenToken& a, const SeenToken& b) { return a.token == b.token; };
  seen_.erase(std::unique(seen_.begin(), seen_.end(), same), seen_.end());
}

void SequenceSampling::ObserveOutput(TokenId token) {
  ++output_tokens_;
  if (!sampling_.has_penalties() || token < 0 || token >= vocab_size_) return;
  const auto at =
      std::lower_bound(seen_.begin(), seen_.end(), token,
                       [](const SeenToken& entry, TokenId t) { return entry.token < t; });
  if (at != seen_.end() && at->token == token) {
    ++at->in_output;
  } else {
    seen_.insert(at, {.token = token, .in_output = 1});
  }
}

SamplingState SequenceSampling::state() const {
  return {.sampling = sampling_,
          .seen = seen_,
          .biases = biases_,
          .suppressed = suppressed_,
          .suppressed_rows = suppressed_.empty() ? 0 : std::max(0, min_output_ - output_tokens_)};
}

}  // namespace outrider
