#include "common/routing/page_hashes.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Test vectors of FNV-1a (Noll).
TEST(PageHashes, AreFnv1aOfPrefix) {
  EXPECT_THAT(TextPageHashes("a", 3, 6), ElementsAre(0xAF63DC4C8601EC8Cu));
  EXPECT_EQ(TextPageHashes("foobar", 3, 6).back(), 0x85944171F73967E8u);
}

TEST(PageHashes, AgreeOnSharedPages) {
  const std::vector<TokenId> a = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<TokenId> b = {1, 2, 3, 4, 5, 9, 7, 8};
  const std::vector<uint64_t> hashes_a = TokenPageHashes(a, 2, 100);
  const std::vector<uint64_t> hashes_b = TokenPageHashes(b, 2, 100);
  ASSERT_THAT(hashes_a, SizeIs(4));
  EXPECT_EQ(hashes_a[0], hashes_b[0]);
  EXPECT_EQ(hashes_a[1], hashes_b[1]);
  EXPECT_NE(hashes_a[2], hashes_b[2]);
  EXPECT_NE(hashes_a[3], hashes_b[3]);  // its own tokens are the same, those before it are not
}

TEST(PageHashes, GoOnFromThePageBefore) {
  const std::vector<TokenId> tokens = {5, 6, 7, 8};
  const std::vector<uint64_t> pages = TokenPageHashes(tokens, 2, 100);
  EXPECT_EQ(ExtendPageHash(kNoPages, std::span(tokens).first(2)), pages[0]);
  EXPECT_EQ(ExtendPageHash(pages[0], std::span(tokens).subspan(2)), pages[1]);
}

TEST(PageHashes, EndAtPartialPageOrLimit) {
  EXPECT_THAT(TextPageHashes("", 4, 100), IsEmpty());
  EXPECT_THAT(TextPageHashes("abcdefgh", 4, 100), SizeIs(2));
  EXPECT_THAT(TextPageHashes("abcdefghi", 4, 100), SizeIs(3));
  EXPECT_EQ(TextPageHashes("abcdefghi", 4, 2), TextPageHashes("abcdefgh", 4, 100));
}

}  // namespace
}  // namespace outrider
