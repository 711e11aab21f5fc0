#include "common/spec/sequence_sampling.h"

#include <algorithm>
#include <bit>
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
  // A set of bits (MaskHolds), as sorting a long prompt would take milliseconds.
  std::vector<uint32_t> added(static_cast<size_t>(MaskWords(vocab_size_)));
  const auto word = [&](TokenId token) -> uint32_t& {
    return added[static_cast<size_t>(token) / 32];
  };
  for (const TokenId token : tokens) {
    if (token >= 0 && token < vocab_size_) word(token) |= uint32_t{1} << (token % 32);
  }
  for (const SeenToken& seen : seen_) word(seen.token) &= ~(uint32_t{1} << (seen.token % 32));
  const auto known = static_cast<ptrdiff_t>(seen_.size());
  for (size_t i = 0; i < added.size(); ++i) {
    for (uint32_t bits = added[i]; bits != 0; bits &= bits - 1) {
      seen_.push_back({.token = static_cast<TokenId>(32 * i) + std::countr_zero(bits)});
    }
  }
  std::inplace_merge(seen_.begin(), seen_.begin() + known, seen_.end(),
                     [](const SeenToken& a, const SeenToken& b) { return a.token < b.token; });
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
