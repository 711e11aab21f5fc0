#include "client/verifier_choice.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/support/fake_clock.h"

namespace outrider {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

std::vector<std::string> Names(int verifiers) {
  std::vector<std::string> names;
  for (int v = 0; v < verifiers; ++v) names.push_back("127.0.0.1:" + std::to_string(7300 + v));
  return names;
}

// Long enough for a page.
std::string Prompt(int family, int question) {
  return std::string(VerifierChoice::kPageBytes, static_cast<char>('a' + family)) + " " +
         std::to_string(question);
}

TEST(VerifierChoice, TakesTurns) {
  const testing::FakeClock clock;
  VerifierChoice choice(Names(3), RoutePolicy::kRoundRobin, &clock);
  std::vector<int> chosen;
  for (int i = 0; i < 6; ++i) chosen.push_back(choice.Begin("x"));
  EXPECT_THAT(chosen, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(VerifierChoice, TakesTheLeastLoaded) {
  const testing::FakeClock clock;
  VerifierChoice choice(Names(3), RoutePolicy::kLeastLoaded, &clock);
  for (int i = 0; i < 6; ++i) choice.Begin("x");
  choice.End(1, false);
  EXPECT_EQ(choice.Begin("x"), 1);
  choice.End(0, false);
  choice.End(0, false);
  choice.End(2, false);
  EXPECT_EQ(choice.Begin("x"), 0);
}

TEST(VerifierChoice, KeepsAPrefixTogether) {
  const testing::FakeClock clock;
  VerifierChoice choice(Names(3), RoutePolicy::kPrefix, &clock);
  for (int family = 0; family < 6; ++family) {
    const int first = choice.Begin(Prompt(family, 0));
    choice.End(first, false);
    for (int question = 1; question < 8; ++question) {
      EXPECT_EQ(choice.Begin(Prompt(family, question)), first);
      choice.End(first, false);
    }
  }
}

TEST(VerifierChoice, CountsWhatEachHadInFlight) {
  const testing::FakeClock clock;
  VerifierChoice choice(Names(2), RoutePolicy::kRoundRobin, &clock);
  for (int i = 0; i < 10; ++i) choice.Begin("x");
  EXPECT_EQ(choice.most_above_bound(), 0);
  // Those of verifier 1 end and those of verifier 0 do not.
  for (int i = 0; i < 5; ++i) choice.End(1, false);
  for (int i = 0; i < 4; ++i) choice.End(choice.Begin("x"), false);
  const std::vector<VerifierChoice::Counts> counts = choice.counts();
  EXPECT_EQ(counts[0].requests, 7);
  EXPECT_EQ(counts[0].most_in_flight, 6);
  EXPECT_EQ(counts[1].requests, 7);
  EXPECT_EQ(counts[1].most_in_flight, 5);
  EXPECT_EQ(choice.most_above_bound(), 2);  // 6, of ceil(1.25 * 6 / 2) = 4
}

TEST(VerifierChoice, PrefixPolicyKeepsBound) {
  const testing::FakeClock clock;
  VerifierChoice choice(Names(3), RoutePolicy::kPrefix, &clock);
  std::vector<int> running;
  for (int i = 0; i < 500; ++i) {
    running.push_back(choice.Begin(Prompt(i % 10 < 8 ? 0 : 1, i)));
    if (running.size() < 12) continue;
    choice.End(running[static_cast<size_t>(i * 7 % 12)], false);
    running.erase(running.begin() + i * 7 % 12);
  }
  EXPECT_EQ(choice.most_above_bound(), 0);
  for (const VerifierChoice::Counts& counts : choice.counts()) EXPECT_GE(counts.requests, 50);
}

TEST(VerifierChoice, SkipsUnavailableVerifiersForAWhile) {
  testing::FakeClock clock;
  for (const RoutePolicy policy :
       {RoutePolicy::kPrefix, RoutePolicy::kRoundRobin, RoutePolicy::kLeastLoaded}) {
    VerifierChoice choice(Names(3), policy, &clock);
    const int gone = choice.Begin("the prompt");
    choice.End(gone, true);
    for (int i = 0; i < 9; ++i) {
      const int chosen = choice.Begin("the prompt");
      EXPECT_NE(chosen, gone);
      choice.End(chosen, false);
    }
    clock.Advance(VerifierChoice::kAwayTime);
    for (int i = 0; i < 9; ++i) choice.Begin("the prompt");
    EXPECT_GE(choice.counts()[static_cast<size_t>(gone)].requests, 2);
  }
}

// Connecting in vain may take longer than the first of them is away.
TEST(VerifierChoice, RequestAsksEachVerifierOnce) {
  for (const RoutePolicy policy :
       {RoutePolicy::kPrefix, RoutePolicy::kRoundRobin, RoutePolicy::kLeastLoaded}) {
    testing::FakeClock clock;
    VerifierChoice choice(Names(3), policy, &clock);
    std::vector<int> asked;
    for (int i = 0; i < 3; ++i) {
      asked.push_back(choice.Begin("the prompt", asked));
      clock.Advance(5 * VerifierChoice::kAwayTime);
      choice.End(asked.back(), true);
    }
    EXPECT_THAT(asked, ::testing::UnorderedElementsAre(0, 1, 2));
  }
}

TEST(VerifierChoice, AsksAgainWhenAllAreUnavailable) {
  const testing::FakeClock clock;
  VerifierChoice choice(Names(2), RoutePolicy::kPrefix, &clock);
  const int first = choice.Begin("x");
  choice.End(first, true);
  choice.End(choice.Begin("x"), true);
  EXPECT_EQ(choice.Begin("x"), first);
}

}  // namespace
}  // namespace outrider
