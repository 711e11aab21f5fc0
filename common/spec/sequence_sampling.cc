#include "common/spec/sequence_sampling.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {

SequenceSampling::SequenceSampling(const SamplingParams& params, int vocab_size, int allowed)
    : sampling_(RowSamplingOf(params)),
      biases_(BiasesOf(params)),
      vocab_size_(vocab_size),
      allowed_(allowed),
      mask_(MaskOf(params, vocab_size)) {
  OUTRIDER_CHECK(allowed > 0 && allowed <= vocab_size);
  for (const std::vector<TokenId>& word : params.bad_words) {
    if (word.size() < 2) continue;
    bad_words_.push_back({.first = static_cast<int32_t>(bad_tokens_.size()),
                          .size = static_cast<int32_t>(word.size())});
    bad_tokens_.insert(bad_tokens_.end(), word.begin(), word.end());
    reach_ = std::max(reach_, word.size() - 1);
  }
}

void SequenceSampling::SuppressBefore(int min_output, std::vector<TokenId> tokens) {
  min_output_ = min_output;
  suppressed_ = std::move(tokens);
}

void SequenceSampling::Restrict(std::span<const uint32_t> mask) {
  if (mask_.empty()) {
    mask_.assign(mask.begin(), mask.end());
    return;
  }
  OUTRIDER_CHECK(mask.size() == mask_.size());
  for (size_t i = 0; i < mask.size(); ++i) mask_[i] &= mask[i];
}

void SequenceSampling::ObservePrompt(std::span<const TokenId> tokens) {
  if (!sampling_.has_penalties()) return;
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab_size_) seen_.push_back({.token = token});
  }
  // Entries with output counts come first, so that they are the ones kept.
  std::sort(seen_.begin(), seen_.end(), [](const SeenToken& a, const SeenToken& b) {
    return a.token != b.token ? a.token < b.token : a.in_output > b.in_output;
  });
  const auto same = [](const SeenToken& a, const SeenToken& b) { return a.token == b.token; };
  seen_.erase(std::unique(seen_.begin(), seen_.end(), same), seen_.end());
}

void SequenceSampling::ObserveOutput(TokenId token) {
  ++output_tokens_;
  if (reach_ > 0) {
    if (recent_.size() == reach_) recent_.erase(recent_.begin());
    recent_.push_back(token);
  }
  if (!sampling_.has_penalties() || token < 0 || token >= vocab_size_) return;
  const auto it =
      std::lower_bound(seen_.begin(), seen_.end(), token,
                       [](const SeenToken& entry, TokenId t) { return entry.token < t; });
  if (it != seen_.end() && it->token == token) {
    ++it->in_output;
  } else {
    seen_.insert(it, {.token = token, .in_output = 1});
  }
}

bool SequenceSampling::Permits(TokenId token) const {
  if (!mask_.empty() && !MaskHolds(mask_.data(), token)) return false;
  if (output_tokens_ < min_output_ &&
      std::find(suppressed_.begin(), suppressed_.end(), token) != suppressed_.end()) {
    return false;
  }
  const auto before = [&](int i) {
    const auto back = static_cast<size_t>(i);
    return back < recent_.size() ? recent_[recent_.size() - 1 - back] : -1;
  };
  return std::none_of(bad_words_.begin(), bad_words_.end(), [&](const BadWord& word) {
    return bad_tokens_[static_cast<size_t>(word.first + word.size - 1)] == token &&
           IsBegun(word, bad_tokens_.data(), before);
  });
}

SamplingState SequenceSampling::state() const {
  return {.sampling = sampling_,
          .seen = seen_,
          .biases = biases_,
          .suppressed = suppressed_,
          .suppressed_rows = suppressed_.empty() ? 0 : std::max(0, min_output_ - output_tokens_),
          .mask = mask_,
          .bad_words = bad_words_,
          .bad_tokens = bad_tokens_,
          .recent = recent_};
}

}  // namespace outrider
