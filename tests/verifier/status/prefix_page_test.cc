#include "verifier/status/prefix_page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <string>

namespace outrider {
namespace {

TEST(PrefixPage, ListsHashesAndTheirScheme) {
  PrefixDigest digest(2);
  digest.Add(0xAB);
  digest.Add(0xFEDCBA9876543210u);
  digest.Add(3);
  const auto page = nlohmann::json::parse(PrefixPage("a \"model\"", 16, digest));
  EXPECT_EQ(page["model"], "a \"model\"");
  EXPECT_EQ(page["page_tokens"], 16);
  EXPECT_EQ(page["hash"], "fnv1a-64");
  EXPECT_EQ(page["pages"], 3);
  EXPECT_EQ(page["hashes"], nlohmann::json({"00000000000000ab", "fedcba9876543210"}));
}

TEST(PrefixPage, IsNoLargerThanItsSlots) {
  PrefixDigest digest(kMaxListedPrefixes);
  for (uint64_t hash = 1; hash <= kMaxListedPrefixes + 10; ++hash) digest.Add(hash);
  const std::string text = PrefixPage("model", 16, digest);
  EXPECT_LT(text.size(), size_t{1400} << 10);
  const auto page = nlohmann::json::parse(text);
  EXPECT_EQ(page["pages"], kMaxListedPrefixes + 10);
  EXPECT_EQ(page["hashes"].size(), static_cast<size_t>(kMaxListedPrefixes));
}

}  // namespace
}  // namespace outrider
