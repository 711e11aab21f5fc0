// What the prefix cache lists in its digest; tests/fuzz/prefix_cache_fuzz.cc tries the cache
// itself.
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

  FakeModel model_{{.vocab_size = 64, .page_tokens = kPageTokens, .total_pages = 64}};
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

}  // namespace
}  // namespace outrider
