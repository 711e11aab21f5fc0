#include "verifier/http/prefix_header.h"

#include <gmock/gmock.h>

#include <numeric>
#include <vector>

namespace outrider {
namespace {

std::vector<TokenId> Prompt(size_t size) {
  std::vector<TokenId> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(PrefixName, IsThatOfTheFirstPages) {
  const auto name = PrefixNameOf(Prompt(40), 16);
  ASSERT_TRUE(name.has_value());
  EXPECT_THAT(*name, ::testing::MatchesRegex("[0-9a-f]{16}"));
  EXPECT_EQ(PrefixNameOf(Prompt(32), 16), name);  // a part of a page does not count
  EXPECT_NE(PrefixNameOf(Prompt(31), 16), name);
  std::vector<TokenId> other = Prompt(40);
  other[0] = 39;
  EXPECT_NE(PrefixNameOf(other, 16), name);
}

TEST(PrefixName, EndsWithTheLastOfThem) {
  const size_t most = kPrefixHeaderPages * 16;
  std::vector<TokenId> longer = Prompt(most + 100);
  EXPECT_EQ(PrefixNameOf(longer, 16), PrefixNameOf(Prompt(most), 16));
  longer[most - 1] = 0;
  EXPECT_NE(PrefixNameOf(longer, 16), PrefixNameOf(Prompt(most), 16));
}

TEST(PrefixName, NeedsAWholePage) {
  EXPECT_EQ(PrefixNameOf(Prompt(15), 16), std::nullopt);
  EXPECT_EQ(PrefixNameOf({}, 16), std::nullopt);
}

}  // namespace
}  // namespace outrider
