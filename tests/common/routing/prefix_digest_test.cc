#include "common/routing/prefix_digest.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(PrefixDigest, ListsWhatIsHeld) {
  PrefixDigest digest(4);
  EXPECT_THAT(digest.Hashes(), IsEmpty());
  const int nine = digest.Add(9);
  digest.Add(7);
  EXPECT_THAT(digest.Hashes(), ElementsAre(7, 9));
  digest.Remove(nine);
  EXPECT_THAT(digest.Hashes(), ElementsAre(7));
  EXPECT_EQ(digest.pages(), 1);
}

TEST(PrefixDigest, CountsWhatHasNoSlot) {
  PrefixDigest digest(2);
  const int one = digest.Add(1);
  digest.Add(2);
  const int unlisted = digest.Add(3);
  EXPECT_EQ(unlisted, PrefixDigest::kNoSlot);
  EXPECT_EQ(digest.pages(), 3);
  EXPECT_THAT(digest.Hashes(), ElementsAre(1, 2));
  digest.Remove(unlisted);
  digest.Remove(one);
  EXPECT_EQ(digest.pages(), 1);
  digest.Add(4);
  EXPECT_THAT(digest.Hashes(), ElementsAre(2, 4));
}

// Hashes that stay are in every list, whatever is added and removed meanwhile.
TEST(PrefixDigest, IsListedWhileItChanges) {
  PrefixDigest digest(64);
  for (uint64_t hash = 1; hash <= 32; ++hash) digest.Add(hash);
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) {
      std::vector<int> slots;
      for (uint64_t hash = 100; hash < 130; ++hash) slots.push_back(digest.Add(hash));
      for (const int slot : slots) digest.Remove(slot);
    }
  });
  for (int i = 0; i < 1000; ++i) {
    const std::vector<uint64_t> hashes = digest.Hashes();
    ASSERT_GE(hashes.size(), 32u);
    for (uint64_t hash = 1; hash <= 32; ++hash) ASSERT_EQ(hashes[hash - 1], hash);
  }
  stop = true;
  writer.join();
  EXPECT_THAT(digest.Hashes(), SizeIs(32));
}

}  // namespace
}  // namespace outrider
