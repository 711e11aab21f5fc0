#include "common/routing/prefix_router.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/routing/page_hashes.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Le;
using ::testing::SizeIs;

constexpr size_t kPageBytes = 8;

std::string NameOf(int verifier) { return "verifier-" + std::to_string(verifier) + ":7300"; }

PrefixRouter RouterOf(int verifiers) {
  PrefixRouter router;
  for (int v = 0; v < verifiers; ++v) router.Add(NameOf(v));
  return router;
}

int Route(PrefixRouter& router, const std::string& prompt) {
  return router.Choose(TextPageHashes(prompt, kPageBytes, 1000));
}

// Where each of `keys` different prompts goes while nothing is in flight.
std::vector<int> Homes(PrefixRouter& router, int keys) {
  std::vector<int> homes;
  for (int key = 0; key < keys; ++key) homes.push_back(Route(router, std::to_string(key)));
  return homes;
}

std::vector<int> CountsOf(const std::vector<int>& homes, int verifiers) {
  std::vector<int> counts(static_cast<size_t>(verifiers));
  for (const int home : homes) ++counts[static_cast<size_t>(home)];
  return counts;
}

TEST(PrefixRouter, ChoosesByNamesWhateverTheirOrder) {
  PrefixRouter one = RouterOf(7);
  PrefixRouter other;
  for (int v = 6; v >= 0; --v) other.Add(NameOf(v));
  const std::vector<int> homes_of_one = Homes(one, 1000);
  const std::vector<int> homes_of_other = Homes(other, 1000);
  for (size_t key = 0; key < homes_of_one.size(); ++key) {
    EXPECT_EQ(homes_of_one[key], 6 - homes_of_other[key]);
  }
}

TEST(PrefixRouter, SharesKeysEqually) {
  PrefixRouter router = RouterOf(10);
  // 1000 each, from 128 points: a standard deviation of 9 %, and 3 % of the keys.
  EXPECT_THAT(CountsOf(Homes(router, 10000), 10), Each(AllOf(Ge(700), Le(1300))));
}

TEST(PrefixRouter, MovesOnlyKeysOfLeavingVerifier) {
  PrefixRouter router = RouterOf(10);
  const std::vector<int> before = Homes(router, 10000);
  router.SetServing(3, false);
  const std::vector<int> after = Homes(router, 10000);
  for (size_t key = 0; key < before.size(); ++key) {
    if (before[key] == 3) {
      EXPECT_NE(after[key], 3);
    } else {
      ASSERT_EQ(after[key], before[key]) << key;
    }
  }
  router.SetServing(3, true);
  EXPECT_EQ(Homes(router, 10000), before);
}

TEST(PrefixRouter, MovesKeysOnlyToNewVerifier) {
  PrefixRouter router = RouterOf(9);
  const std::vector<int> before = Homes(router, 10000);
  const int added = router.Add(NameOf(9));
  const std::vector<int> after = Homes(router, 10000);
  int moved = 0;
  for (size_t key = 0; key < before.size(); ++key) {
    if (after[key] == before[key]) continue;
    ++moved;
    ASSERT_EQ(after[key], added) << key;
  }
  EXPECT_THAT(moved, AllOf(Gt(700), Le(1300)));  // a tenth
}

// With all keys in flight at once, the bound moves some more: those that a full verifier passed on.
TEST(PrefixRouter, MovesFewMoreKeysUnderBound) {
  const auto place = [](PrefixRouter router) {
    std::vector<int> homes;
    for (int key = 0; key < 10000; ++key) {
      homes.push_back(Route(router, std::to_string(key)));
      router.Begin(homes.back());
    }
    return homes;
  };
  PrefixRouter router = RouterOf(10);
  const std::vector<int> before = place(router);
  router.SetServing(3, false);
  const std::vector<int> after = place(router);
  int moved = 0, of_3 = 0;
  for (size_t key = 0; key < before.size(); ++key) {
    of_3 += before[key] == 3 ? 1 : 0;
    moved += after[key] != before[key] ? 1 : 0;
  }
  EXPECT_THAT(CountsOf(before, 10), Each(Le(1250)));
  EXPECT_THAT(CountsOf(after, 10), Each(Le(1389)));  // ceil(1.25 * 10000 / 9)
  EXPECT_THAT(moved, AllOf(Ge(of_3), Le(2 * of_3)));
}

// Requests of families of very different sizes come and go at random.
TEST(PrefixRouter, KeepsTheBoundAtEveryRequest) {
  for (const int verifiers : {1, 2, 3, 8, 50}) {
    PrefixRouter router = RouterOf(verifiers);
    std::mt19937_64 random(static_cast<uint64_t>(verifiers));
    std::vector<int> running;
    for (int i = 0; i < 20000; ++i) {
      const double u = std::uniform_real_distribution<double>(0.01, 1)(random);
      const auto family = static_cast<int>(1 / u);  // Zipf: half of them are the first
      const int choice = Route(router, "family " + std::to_string(family) + " and what follows it");
      router.Begin(choice);
      running.push_back(choice);
      const double mean = static_cast<double>(running.size()) / verifiers;
      ASSERT_LE(router.in_flight(choice), std::ceil(1.25 * mean)) << i << " of " << verifiers;
      // Between 50 and 100 in flight, by turns.
      while (running.size() > (i / 1000 % 2 == 0 ? 100u : 50u)) {
        const size_t ended = random() % running.size();
        router.End(running[ended]);
        running[ended] = running.back();
        running.pop_back();
      }
    }
  }
}

TEST(PrefixRouter, SendsAFamilyToOneVerifier) {
  PrefixRouter router = RouterOf(5);
  std::map<int, std::set<int>> homes;
  for (int i = 0; i < 1000; ++i) {
    const int family = i % 20;
    homes[family].insert(
        Route(router, "doc-" + std::to_string(100 + family) + ", question " + std::to_string(i)));
  }
  for (const auto& [family, verifiers] : homes) EXPECT_THAT(verifiers, SizeIs(1)) << family;
}

// What a hash of the first page would send to one verifier.
TEST(PrefixRouter, SpreadsChatsBelowSharedPrompt) {
  const std::string system = "You are a helpful assistant. Answer in a sentence\nUser: ";
  ASSERT_EQ(system.size() % kPageBytes, 0u);
  PrefixRouter router = RouterOf(5);
  // Learns that all share it.
  for (int i = 0; i < 500; ++i) Route(router, system + "warm-up " + std::to_string(i));
  std::vector<int> counts(5);
  for (int chat = 0; chat < 200; ++chat) {
    std::string text = system + std::to_string(1000 + chat) + " is my number, what is yours?";
    const int first = Route(router, text);
    ++counts[static_cast<size_t>(first)];
    for (int turn = 0; turn < 3; ++turn) {
      text += " The answer. And the next question?";
      EXPECT_EQ(Route(router, text), first) << chat;
    }
  }
  EXPECT_THAT(counts, Each(Ge(20)));  // 40 each, deviating by 6
}

TEST(PrefixRouter, DecidesByFirstRarelySharedPage) {
  PrefixRouter router = RouterOf(4);
  const auto pages = [](const std::string& text) { return TextPageHashes(text, kPageBytes, 1000); };
  EXPECT_EQ(router.DecidingPage(pages("system..family.1question")), 0u);
  for (int i = 0; i < 600; ++i) {
    Route(router, "system..family." + std::to_string(i % 6) + "question" + std::to_string(i));
  }
  EXPECT_EQ(router.DecidingPage(pages("system..family.1question")), 1u);
  EXPECT_EQ(router.DecidingPage(pages("system..another.")), 1u);
  EXPECT_EQ(router.DecidingPage(pages("unrelated texts")), 0u);
  // Half of the requests: more than one of four verifiers may take.
  for (int i = 0; i < 600; ++i) {
    Route(router, "system..family." + std::to_string(i % 2) + "question" + std::to_string(i));
  }
  EXPECT_EQ(router.DecidingPage(pages("system..family.1question")), 2u);
  EXPECT_EQ(router.DecidingPage(pages("system..family.1")), 1u);  // its last page
  // No longer shared.
  for (int i = 0; i < 600; ++i) Route(router, std::to_string(i));
  EXPECT_EQ(router.DecidingPage(pages("system..family.1question")), 0u);
}

TEST(PrefixShares, CountsLongPrefixAfterFewRequests) {
  PrefixShares shares;
  const std::vector<uint64_t> pages = TextPageHashes(std::string(400, 'x'), kPageBytes, 1000);
  ASSERT_THAT(pages, SizeIs(50));
  for (int i = 0; i < 5; ++i) shares.Count(pages, 100);
  EXPECT_EQ(shares.CountOf(pages[0]), 5);
  EXPECT_EQ(shares.CountOf(pages[15]), 5);
  EXPECT_EQ(shares.CountOf(pages[16]), 4);  // after 16 that were known
  EXPECT_EQ(shares.CountOf(pages[49]), 2);
}

TEST(PrefixShares, ForgetsAfterTwoWindows) {
  PrefixShares shares;
  const std::vector<uint64_t> page = {1}, other = {2};
  for (int i = 0; i < 10; ++i) shares.Count(page, 10);
  for (int i = 0; i < 10; ++i) shares.Count(other, 10);
  EXPECT_EQ(shares.CountOf(1), 10);
  EXPECT_EQ(shares.requests(), 20);
  shares.Count(other, 10);
  EXPECT_EQ(shares.CountOf(1), 0);
  EXPECT_EQ(shares.CountOf(2), 11);
  EXPECT_EQ(shares.requests(), 11);
}

TEST(PrefixRouter, TakesSharesOnlyAfterSomeRequests) {
  PrefixRouter router = RouterOf(3);
  const std::vector<uint64_t> pages = TextPageHashes("system..question", kPageBytes, 1000);
  for (int i = 0; i < 10; ++i) router.Choose(pages);
  EXPECT_EQ(router.DecidingPage(pages), 0u);  // not above 1.25 / 3 of 24
  router.Choose(pages);
  EXPECT_EQ(router.DecidingPage(pages), 1u);
}

TEST(PrefixRouter, SpreadsOnePromptByTheBound) {
  PrefixRouter router = RouterOf(4);
  for (int i = 0; i < 40; ++i) router.Begin(Route(router, "the same prompt"));
  std::vector<int> in_flight;
  for (int v = 0; v < 4; ++v) in_flight.push_back(router.in_flight(v));
  // 40 = 13 + 13 + 13 + 1, or more evenly; never above ceil(1.25 * 10).
  EXPECT_THAT(in_flight, Each(AllOf(Ge(1), Le(13))));
}

TEST(PrefixRouter, ChoosesNoneIfNoneServes) {
  PrefixRouter router;
  EXPECT_EQ(Route(router, "prompt"), -1);
  router.Add("a");
  EXPECT_EQ(Route(router, "prompt"), 0);
  EXPECT_EQ(Route(router, ""), 0);
  router.SetServing(0, false);
  EXPECT_EQ(Route(router, "prompt"), -1);
  EXPECT_EQ(router.Limit(), 0);
}

TEST(PrefixRouter, IgnoresRequestsOfAbsentVerifiers) {
  PrefixRouter router = RouterOf(2);
  for (int i = 0; i < 8; ++i) router.Begin(0);
  EXPECT_EQ(router.Limit(), 6);  // ceil(1.25 * 9 / 2)
  router.SetServing(0, false);
  EXPECT_EQ(router.Limit(), 2);  // ceil(1.25 * 1)
  router.End(0);
  router.SetServing(0, true);
  EXPECT_EQ(router.Limit(), 5);  // ceil(1.25 * 8 / 2)
}

}  // namespace
}  // namespace outrider
