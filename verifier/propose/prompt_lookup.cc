#include "verifier/propose/prompt_lookup.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

PromptLookup::PromptLookup(const PromptLookupOptions& options) : options_(options) {
  OUTRIDER_CHECK(options.min_n >= 1 && options.max_n >= options.min_n);
  OUTRIDER_CHECK(options.max_tokens / 2 >= options.max_n);
  ends_.resize(static_cast<size_t>(options.max_n - options.min_n) + 1);
}

void PromptLookup::Append(TokenId token) {
  if (size() == options_.max_tokens) {
    const std::vector<TokenId> kept(text_.end() - options_.max_tokens / 2, text_.end());
    text_.clear();
    for (IndexTable& table : ends_) table.Clear();
    for (const TokenId old : kept) {
      text_.push_back(old);
      Index();
    }
  }
  text_.push_back(token);
  Index();
}

void PromptLookup::Index() {
  match_length_ = 0;
  uint64_t hash = HashSalt();
  const int longest = std::min(options_.max_n, size());
  for (int n = 1; n <= longest; ++n) {
    const TokenId* end = text_.data() + text_.size();
    hash = HashStep(hash, static_cast<uint32_t>(end[-n]));
    if (n < options_.min_n) continue;
    const int32_t before = ends_[static_cast<size_t>(n - options_.min_n)].Put(
        hash, size(),
        [&](int32_t index) { return std::equal(end - n, end, text_.data() + index - n); });
    if (before < 0) continue;
    match_length_ = n;
    match_end_ = static_cast<size_t>(before);
  }
}

void PromptLookup::Continue(int length, std::vector<TokenId>* out) const {
  if (match_length_ == 0) return;
  const size_t begin = out->size(), left = text_.size() - match_end_;
  for (size_t i = 0; i < static_cast<size_t>(std::max(length, 0)); ++i) {
    out->push_back(i < left ? text_[match_end_ + i] : (*out)[begin + i - left]);
  }
}

size_t PromptLookup::bytes() const {
  size_t bytes = text_.capacity() * sizeof(TokenId);
  for (const IndexTable& table : ends_) bytes += table.bytes();
  return bytes;
}

int64_t PromptLookup::probes() const {
  int64_t probes = 0;
  for (const IndexTable& table : ends_) probes += table.probes();
  return probes;
}

}  // namespace outrider
