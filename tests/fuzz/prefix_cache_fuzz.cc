// The prefix cache under any sequence of forks, inserts and evictions: a fork has exactly the
// longest whole-page prefix of the requested tokens that was inserted and not evicted, at least
// what the cache's own entries imply, and every sequence and page is freed.

#include <optional>
#include <span>
#include <vector>

#include "common/model/prefix_cache.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/fake_model.h"

namespace outrider::fuzz {
namespace {

constexpr int kPageTokens = 2;

// Two letters and few lengths, so that prefixes often coincide.
std::vector<TokenId> Tokens(Input& in) {
  std::vector<TokenId> tokens(static_cast<size_t>(1 + in.Below(12)));
  const int bits = in.Byte() + 256 * in.Byte();
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = (bits >> i) & 1;
  return tokens;
}

size_t CommonPages(std::span<const TokenId> a, std::span<const TokenId> b) {
  size_t same = 0;
  while (same < std::min(a.size(), b.size()) && a[same] == b[same]) ++same;
  return same / kPageTokens;
}

class Cache {
 public:
  explicit Cache(int pages)
      : model_({.vocab_size = 2, .page_tokens = kPageTokens, .total_pages = pages}) {
    cache_.emplace(&model_, &digest_);
  }

  void Do(Input& in) {
    switch (in.Below(4)) {
      case 0: Serve(in, /*keep=*/true); break;
      case 1: Serve(in, /*keep=*/false); break;
      case 2: {
        const bool held = cache_->entries() > 0;
        Require(cache_->EvictOne() == held);
        evicted_ = true;
        break;
      }
      default: Serve(in, /*keep=*/true); break;
    }
    // Between requests, only the cache has sequences.
    Require(model_.sequences() == cache_->entries());
    Require(model_.total_pages() - model_.free_pages() == cache_->Pages());
  }

  void Finish() {
    cache_.reset();
    Require(digest_.pages() == 0 && digest_.Hashes().empty());
    Require(model_.sequences() == 0 && model_.free_pages() == model_.total_pages());
  }

 private:
  // A request as the engine serves it: fork, make room, compute the rest, keep or drop it.
  void Serve(Input& in, bool keep) {
    const std::vector<TokenId> tokens = Tokens(in);
    const SequenceId sequence = cache_->Fork(tokens);
    const auto held = static_cast<size_t>(model_.length(sequence));
    Require(held <= tokens.size() && held % kPageTokens == 0);
    Require(std::equal(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(held),
                       model_.tokens(sequence).begin()));
    size_t longest = 0;
    for (const std::vector<TokenId>& was : inserted_) {
      longest = std::max(longest, CommonPages(tokens, was) * kPageTokens);
    }
    // Only evictions make it forget.
    Require(evicted_ ? held <= longest : held == longest);

    const auto size = static_cast<int>(tokens.size());
    while (!model_.Reserve(sequence, size).ok()) {
      if (!cache_->EvictOne()) {
        model_.Release(sequence);
        return;
      }
      evicted_ = true;
    }
    if (held < tokens.size()) {
      ForwardOutput output;
      const ForwardSequence share{.sequence = sequence,
                                  .tokens = std::span(tokens).subspan(held),
                                  .parents = {},
                                  .logit_rows = {}};
      Require(model_.Forward({&share, 1}, false, &output).ok());
    }
    if (!keep) {
      model_.Release(sequence);
      return;
    }
    cache_->Insert(tokens, sequence);
    inserted_.push_back(tokens);
  }

  FakeModel model_;
  PrefixDigest digest_{8};
  std::optional<PrefixCache> cache_;
  std::vector<std::vector<TokenId>> inserted_;
  bool evicted_ = false;
};

}  // namespace
}  // namespace outrider::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::fuzz::Input in(data, size);
  outrider::fuzz::Cache cache(1 + in.Below(40));
  for (int i = 0; i < 100 && !in.empty(); ++i) cache.Do(in);
  cache.Finish();
  return 0;
}
