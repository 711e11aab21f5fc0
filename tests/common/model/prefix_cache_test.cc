// What the prefix cache lists in its digest, and what its calls cost;
// tests/fuzz/prefix_cache_fuzz.cc tries what it shares.
#include "common/model/prefix_cache.h"

#include <gmock/gmock.h>

#include <numeric>
#include <optional>
#include <vector>

#include "common/routing/page_hashes.h"
#include "tests/support/fake_model.h"

namespace outrider {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAreArray;

constexpr int kPageTokens = 4;

class PrefixCacheDigest : public ::testing::Test {
 protected:
  // Computes a text and gives it to the cache.
  void Insert(const std::vector<TokenId>& tokens) {
    const SequenceId sequence = cache_->Fork(tokens);
    const auto held = static_cast<size_t>(model_.length(sequence));
    ASSERT_TRUE(model_.Reserve(sequence, static_cast<int>(tokens.size())).ok());
    if (held < tokens.size()) {
      ForwardOutput output;
      const ForwardSequence share{.sequence = sequence,
                                  .tokens = std::span(tokens).subspan(held),
                                  .parents = {},
                                  .logit_rows = {}};
      ASSERT_TRUE(model_.Forward({&share, 1}, false, &output).ok());
    }
    cache_->Insert(tokens, sequence);
  }

  static std::vector<TokenId> Text(TokenId first, int size) {
    std::vector<TokenId> tokens(static_cast<size_t>(size));
    std::iota(tokens.begin(), tokens.end(), first);
    return tokens;
  }
  // Hashes of the whole pages.
  static std::vector<uint64_t> HashesOf(std::vector<TokenId> tokens) {
    tokens.resize(tokens.size() / kPageTokens * kPageTokens);
    return TokenPageHashes(tokens, kPageTokens, 1000);
  }

  FakeModel model_{
      {.vocab_size = 64, .page_tokens = kPageTokens, .total_pages = 512, .max_batch_tokens = 256}};
  PrefixDigest digest_{64};
  std::optional<PrefixCache> cache_{std::in_place, &model_, &digest_};
};

TEST_F(PrefixCacheDigest, HashesEveryWholePage) {
  Insert(Text(0, 14));
  EXPECT_THAT(digest_.Hashes(), UnorderedElementsAreArray(HashesOf(Text(0, 14))));
  EXPECT_EQ(digest_.pages(), 3);
}

TEST_F(PrefixCacheDigest, HasSharedPagesOnce) {
  std::vector<TokenId> other = Text(0, 12);
  other[9] = 63;  // in the third page
  Insert(Text(0, 16));
  Insert(other);
  std::vector<uint64_t> hashes = HashesOf(Text(0, 16));
  hashes.push_back(HashesOf(other).back());
  EXPECT_THAT(digest_.Hashes(), UnorderedElementsAreArray(hashes));
}

TEST_F(PrefixCacheDigest, LosesWhatIsEvicted) {
  Insert(Text(0, 8));
  Insert(Text(20, 12));
  ASSERT_TRUE(cache_->EvictOne());
  EXPECT_THAT(digest_.Hashes(), UnorderedElementsAreArray(HashesOf(Text(20, 12))));
  cache_.reset();
  EXPECT_THAT(digest_.Hashes(), IsEmpty());
  EXPECT_EQ(digest_.pages(), 0);
}

TEST_F(PrefixCacheDigest, LongerTextReplacesItsPrefix) {
  Insert(Text(0, 8));
  Insert(Text(0, 20));
  std::vector<TokenId> longer = Text(0, 24);
  longer[20] = 63;
  Insert(longer);
  EXPECT_EQ(cache_->entries(), 1);
  longer[9] = 63;  // now only two pages are shared
  Insert(longer);
  EXPECT_EQ(cache_->entries(), 2);
  EXPECT_EQ(cache_->Pages(), 6 + 4);
  ASSERT_TRUE(cache_->EvictOne());
  EXPECT_EQ(cache_->Pages(), 6);
  EXPECT_EQ(digest_.pages(), 6);
}

// However many entries begin with the same pages, a call visits the pages of its own text, and each
// once for every purpose: to find it, to count it and to name an entry that holds it.
using PrefixCacheSteps = PrefixCacheDigest;

TEST_F(PrefixCacheSteps, DoNotGrowWithEntries) {
  constexpr int kShared = 40, kTexts = 200;
  constexpr int64_t kMost = int64_t{4} * (kShared + 1);
  const auto text = [](int i) {
    std::vector<TokenId> tokens = Text(0, kShared * kPageTokens);
    for (TokenId& token : tokens) token %= 7;
    tokens.insert(tokens.end(), {i / 64, i % 64, 0, 0});
    return tokens;
  };
  const auto steps_of = [this](auto&& call) {
    const int64_t before = cache_->steps();
    call();
    return cache_->steps() - before;
  };
  for (int i = 0; i < kTexts; ++i) {
    ASSERT_LE(steps_of([&] { Insert(text(i)); }), kMost) << i;
  }
  EXPECT_EQ(cache_->Pages(), kShared + kTexts);
  for (int left = kTexts; left > 0; --left) {
    const SequenceId fork = cache_->Fork(text(kTexts));
    EXPECT_EQ(model_.length(fork), kShared * kPageTokens) << left << " entries hold them";
    model_.Release(fork);
    ASSERT_LE(steps_of([&] { cache_->EvictOne(); }), kMost) << left;
  }
  EXPECT_EQ(cache_->Pages(), 0);
}

}  // namespace
}  // namespace outrider
