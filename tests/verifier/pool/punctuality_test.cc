#include "verifier/pool/punctuality.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/fake_clock.h"

namespace outrider {
namespace {

constexpr double kPlenty = 1000;  // the value of a draft
constexpr double kUsual = 0.004;

class PunctualityTest : public ::testing::Test {
 protected:
  void InTime(int drafts, double seconds = kUsual, double worth = kPlenty) {
    for (int i = 0; i < drafts; ++i) p_.RecordDraft(clock_.Now(), seconds, worth, /*late=*/false);
  }
  void MarkLateDrafts(int drafts) {
    for (int i = 0; i < drafts; ++i) p_.MarkLate(clock_.Now(), kUsual, /*nothing_arrived=*/false);
  }

  testing::FakeClock clock_;
  Punctuality p_;
};

TEST_F(PunctualityTest, SuspendsAfterThreeLateDrafts) {
  InTime(1);
  for (int i = 0; i < 3; ++i) {
    MarkLateDrafts(2);
    InTime(1);
  }
  EXPECT_FALSE(p_.suspended());
  EXPECT_GT(p_.Timeout(kPlenty, 0), 0);
  MarkLateDrafts(3);
  EXPECT_TRUE(p_.suspended());
  EXPECT_EQ(p_.Timeout(kPlenty, 0), 0);
}

TEST_F(PunctualityTest, WaitsForGivenTime) {
  p_ = Punctuality(5);
  EXPECT_FALSE(p_.suspended());
  EXPECT_EQ(p_.Timeout(0.01, 0), 5) << "a draft that is worth less, of a drafter that is new";
  for (int i = 0; i < 100; ++i) p_.MarkLate(Time(), 5, /*nothing_arrived=*/true);
  EXPECT_FALSE(p_.suspended());
  EXPECT_GE(p_.Timeout(0.01, 0), 5);
}

TEST_F(PunctualityTest, NobodyWaitsForANewDrafter) {
  EXPECT_EQ(p_.Timeout(kPlenty, 0), 0);
  EXPECT_TRUE(p_.IsTrialDue(clock_.Now())) << "but it is asked";
  const Time first_trial = clock_.Now();
  p_.BeginTrial(clock_.Now());
  EXPECT_FALSE(p_.silent());
  InTime(1, 0.3, 0.2);
  EXPECT_EQ(p_.Timeout(kPlenty, 0), 0) << "its draft was not worth a wait";
  clock_.Advance(std::chrono::seconds(1));
  p_.BeginTrial(clock_.Now());
  EXPECT_TRUE(p_.silent()) << "once more, and it has shown nothing";
  EXPECT_EQ(p_.silent_since(), first_trial);
  InTime(1);
  EXPECT_GT(p_.Timeout(kPlenty, 0), 0);
  EXPECT_FALSE(p_.silent());
}

TEST_F(PunctualityTest, SuspendsASilentDrafterAtOnce) {
  InTime(1);
  p_.MarkLate(clock_.Now(), kUsual, /*nothing_arrived=*/true);
  EXPECT_TRUE(p_.suspended());
  const Time suspended = clock_.Now();
  clock_.Advance(std::chrono::seconds(1));
  p_.BeginTrial(clock_.Now());
  EXPECT_EQ(p_.silent_since(), suspended);
}

TEST_F(PunctualityTest, LateDraftIsNotInTime) {
  InTime(1);
  for (int i = 0; i < 2; ++i) {
    MarkLateDrafts(1);
    p_.RecordDraft(clock_.Now(), 0.1, kPlenty, /*late=*/true);
  }
  EXPECT_GT(p_.round_trip().mean, 0.02) << "but its time is learned";
  MarkLateDrafts(1);
  EXPECT_TRUE(p_.suspended());
}

TEST_F(PunctualityTest, ResumesWithDraftWorthItsWait) {
  MarkLateDrafts(1);
  const double worth = 0.1;
  InTime(5, 0.11, worth);
  EXPECT_TRUE(p_.suspended()) << "plain decoding would be faster";
  InTime(1, 0.09, worth);
  EXPECT_FALSE(p_.suspended());
  EXPECT_DOUBLE_EQ(p_.round_trip().mean, 0.09) << "what it was before says little";
  MarkLateDrafts(1);
  p_ = {};
  MarkLateDrafts(1);
  InTime(5, 1.1);
  EXPECT_TRUE(p_.suspended()) << "nobody ever waits that long";
}

// A draft that misses the end of one step is read at that of the next.
TEST_F(PunctualityTest, WaitsForTwoSteps) {
  InTime(20);
  EXPECT_LT(p_.Timeout(kPlenty, 0), 0.03);
  EXPECT_DOUBLE_EQ(p_.Timeout(kPlenty, 0.03), 0.06);
  EXPECT_DOUBLE_EQ(p_.Timeout(0.05, 0.03), 0.05) << "no longer than it is worth";
  MarkLateDrafts(3);
  EXPECT_EQ(p_.Timeout(kPlenty, 0.03), 0);
}

// Each draft arrives just before its deadline, and makes the next deadline later.
TEST_F(PunctualityTest, WaitIsBoundedByDraftsWorth) {
  for (const double worth : {0.05, 0.2, kPlenty}) {
    p_ = {};
    InTime(1);
    for (int i = 0; i < 100; ++i) InTime(1, 0.99 * p_.Timeout(worth, 0), worth);
    EXPECT_LE(p_.Timeout(worth, 0), std::min(worth, Punctuality::kMaxTimeout));
  }
}

TEST_F(PunctualityTest, TriesSuspendedDrafterLaterAndLater) {
  InTime(1);
  MarkLateDrafts(3);
  int trials = 0;
  for (int i = 0; i < 10'000; ++i) {  // 100 s
    clock_.Advance(std::chrono::milliseconds(10));
    if (!p_.IsTrialDue(clock_.Now())) continue;
    p_.BeginTrial(clock_.Now());
    ++trials;
  }
  EXPECT_GE(trials, 6);
  EXPECT_LE(trials, 10);
}

// In time whenever nobody waits, late whenever somebody does: the lost time stays a small share.
TEST_F(PunctualityTest, SuspendsRelapsingDrafterLongerEachTime) {
  InTime(1, 0.9);
  double waited = 0, seconds = 0;
  const auto pass = [&](double by) {
    clock_.Advance(FromSeconds(by));
    seconds += by;
  };
  while (seconds < 600) {
    if (p_.suspended()) {
      pass(0.001);
      InTime(1, 0.9);
      continue;
    }
    const double timeout = p_.Timeout(kPlenty, 0);
    pass(timeout);
    waited += timeout;
    p_.MarkLate(clock_.Now(), timeout, /*nothing_arrived=*/false);
  }
  EXPECT_LT(waited / seconds, 0.07);
}

TEST_F(PunctualityTest, TimeForgives) {
  InTime(1);
  for (int i = 0; i < 20; ++i) {
    clock_.Advance(std::chrono::seconds(61));
    MarkLateDrafts(3);
    ASSERT_TRUE(p_.suspended());
    InTime(1);
    EXPECT_FALSE(p_.suspended()) << i;
  }
}

TEST_F(PunctualityTest, GoodWorkIsForgiven) {
  for (int i = 0; i < 20; ++i) {  // an occasional stall of the machine
    InTime(100);
    MarkLateDrafts(3);
    ASSERT_TRUE(p_.suspended());
    InTime(1);
    EXPECT_FALSE(p_.suspended()) << i;
  }
}

}  // namespace
}  // namespace outrider
