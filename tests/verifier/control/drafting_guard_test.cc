#include "verifier/control/drafting_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

namespace outrider {
namespace {

constexpr double kPlainSeconds = 0.025;

// An engine whose rounds take four plain rounds with drafters and one without.
class DraftingGuardTest : public ::testing::Test {
 protected:
  // Runs so many plain rounds' time of each session. `speedup`: tokens with drafters over those
  // without. Returns the tokens over those of plain decoding.
  double Run(int sessions, double speedup, double rounds, double noise = 0) {
    double time = 0;
    double tokens = 0;
    while (time < rounds * sessions) {
      for (int i = 0; i < sessions; ++i) {
        const bool drafts = guard_->Allows(sessions, /*is_open=*/true);
        const double takes = (drafts ? 4 : 1) * std::exp(noise * Normal() - noise * noise / 2);
        const double expected = drafts ? 4 * speedup : 1;
        const int emitted = static_cast<int>(expected + Uniform());
        guard_->OnRound({.sessions = sessions,
                         .seconds = takes * kPlainSeconds,
                         .plain_seconds = kPlainSeconds,
                         .tokens = emitted});
        time += takes;
        tokens += emitted;
      }
    }
    return tokens / time;
  }

  // The same, where the first eight rounds of each session with drafters, after others without,
  // take `reading` plain rounds more in all.
  void RunReading(int sessions, double speedup, double reading, double rounds) {
    double left = 0;
    bool drafted = false;
    for (double time = 0; time < rounds;) {
      const bool drafts = guard_->Allows(sessions, /*is_open=*/true);
      if (drafts && !drafted) left = 8;
      drafted = drafts;
      const double takes = (drafts ? 4 : 1) + (drafts && left-- > 0 ? reading / 8 : 0);
      for (int i = 0; i < sessions; ++i) {
        guard_->OnRound({.sessions = sessions,
                         .seconds = takes * kPlainSeconds,
                         .plain_seconds = kPlainSeconds,
                         .tokens = drafts ? static_cast<int>(4 * speedup) : 1});
      }
      time += takes;
    }
  }

  // A round of each session takes as long as so many plain ones.
  void Stall(int sessions, double rounds) {
    for (int i = 0; i < sessions; ++i) {
      guard_->OnRound({.sessions = sessions,
                       .seconds = rounds * kPlainSeconds,
                       .plain_seconds = kPlainSeconds,
                       .tokens = 1});
    }
  }

  void Restart() { guard_.emplace(); }
  double Normal() { return std::normal_distribution<>()(random_); }
  double Uniform() { return std::uniform_real_distribution<>()(random_); }

  std::optional<DraftingGuard> guard_{std::in_place};
  std::mt19937_64 random_{1};
};

TEST_F(DraftingGuardTest, LoneSessionMayAlwaysAsk) {
  Run(/*sessions=*/16, /*speedup=*/0.5, /*rounds=*/400);
  EXPECT_FALSE(guard_->Allows(16, true));
  EXPECT_TRUE(guard_->Allows(1, true));
  EXPECT_NEAR(Run(/*sessions=*/1, /*speedup=*/0.5, /*rounds=*/2000), 0.5, 0.02);
}

// Drafters may lose ten rounds first; afterwards trials cost a hundredth of the time.
TEST_F(DraftingGuardTest, HoldsBackDraftsThatCostTime) {
  for (const double speedup : {0.5, 0.8, 0.9, 0.97}) {
    Restart();
    Run(16, speedup, 400);
    EXPECT_GT(Run(16, speedup, 20000), 0.985) << speedup;
  }
}

// 40 plain rounds of each session, where each of these loses 3.6.
TEST_F(DraftingGuardTest, EndsFirstComparisonThatCostsMuch) {
  double rounds = 0;
  while (guard_->Allows(16, true)) {
    Run(16, /*speedup=*/0.1, /*rounds=*/1);
    ++rounds;
    ASSERT_LT(rounds, 28);
  }
  EXPECT_NEAR(rounds, 40 / 3.6, 3);
  EXPECT_EQ(guard_->Speedup(16), 0) << "plain decoding was not measured yet";
  Run(16, 0.1, 400);
  EXPECT_NEAR(guard_->Speedup(16), 0.1, 0.02);
}

// As where all policies decode plainly, until they take to drafts at once: the period ends once it
// has lost ten plain rounds, and it may be the second in which they draft.
TEST_F(DraftingGuardTest, EndsPeriodsThatCostMuch) {
  for (int before = 1000; before < 1012; ++before) {
    Restart();
    Run(16, /*speedup=*/1, before);
    while (!guard_->Allows(16, true)) Run(16, 1, 1);
    double rounds = 0;
    while (guard_->Allows(16, true)) {
      Run(16, /*speedup=*/0.1, /*rounds=*/1);
      ++rounds;
    }
    EXPECT_LE(rounds, 1 + 2 * 10 / 3.6) << before;
  }
}

// Drafters on the verifier's device that read the texts first: a trial that ends before it measured
// anything is repeated with twice the patience.
TEST_F(DraftingGuardTest, TriesDraftersWhoseReadingCostsMuch) {
  for (const double reading : {12., 25., 60.}) {
    Restart();
    Run(16, /*speedup=*/0.6, /*rounds=*/400);
    ASSERT_FALSE(guard_->Allows(16, true));
    RunReading(16, /*speedup=*/2, reading, /*rounds=*/60000);
    EXPECT_NEAR(guard_->Speedup(16), 2, 0.1) << reading;
    EXPECT_TRUE(guard_->Allows(16, true)) << reading;
  }
}

// Policies that learn lose something first.
TEST_F(DraftingGuardTest, WaitsUntilPoliciesHaveLearned) {
  Run(16, /*speedup=*/0.95, /*rounds=*/150);
  EXPECT_NEAR(guard_->Speedup(16), 0.95, 0.02);
  EXPECT_TRUE(guard_->Allows(16, true)) << "it has cost seven rounds";
  EXPECT_GT(Run(16, /*speedup=*/1.5, /*rounds=*/400), 0.97 * 1.5);
}

TEST_F(DraftingGuardTest, KeepsWhatDraftsGain) {
  for (const double speedup : {1.05, 1.5, 3.}) {
    Restart();
    Run(16, speedup, 400);
    EXPECT_GT(Run(16, speedup, 20000) / speedup, 0.985) << speedup;
  }
}

// As where every session's policy decodes plainly, until one finds drafts that pay.
TEST_F(DraftingGuardTest, AllowsDraftersThatChangeNothing) {
  int allowed = 0;
  for (int i = 0; i < 1000; ++i) {
    Run(/*sessions=*/16, /*speedup=*/1, /*rounds=*/16);
    allowed += guard_->Allows(16, true) ? 1 : 0;
  }
  EXPECT_GT(allowed, 800) << "of 1000; the rest are trials";
}

// Times vary by a half and more, so that single periods mislead. The seed is fixed.
TEST_F(DraftingGuardTest, FindsTheFasterWayInNoise) {
  for (const double speedup : {0.8, 0.95, 1.05, 2.}) {
    Restart();
    Run(16, speedup, 400, /*noise=*/0.5);
    EXPECT_GT(Run(16, speedup, 20000, 0.5) / std::max(1., speedup), 0.98) << speedup;
  }
}

TEST_F(DraftingGuardTest, FollowsDraftsThatChange) {
  Run(16, 2, 4000);
  Run(16, 0.7, 400);  // the text has turned
  EXPECT_GT(Run(16, 0.7, 4000), 0.98);
  Run(16, 1.5, 8000);
  EXPECT_GT(Run(16, 1.5, 4000), 0.98 * 1.5);
}

TEST_F(DraftingGuardTest, JudgesEachLoadByItself) {
  Run(4, 2, 400);
  Run(64, 0.7, 200);
  EXPECT_GT(Run(4, 2, 1000), 0.97 * 2);
  EXPECT_GT(Run(64, 0.7, 400), 0.95);
}

TEST_F(DraftingGuardTest, StallsDoNotDecide) {
  Run(16, 0.9, 400);
  ASSERT_FALSE(guard_->Allows(16, true));
  Stall(16, /*rounds=*/400);
  EXPECT_GT(Run(16, 0.9, 400), 0.97);
}

// Whenever it comes: in a period of either way, in a trial, while the engine settles.
TEST_F(DraftingGuardTest, StallsDelayTrialsByLittle) {
  for (int before = 400; before < 4000; before += 30) {
    Restart();
    Run(16, 0.7, before);
    Stall(16, /*rounds=*/1000);
    Run(16, 1.5, 16000);
    ASSERT_GT(Run(16, 1.5, 4000), 0.98 * 1.5) << before;
  }
}

TEST_F(DraftingGuardTest, IgnoresInvalidTimes) {
  for (const double seconds : {0., -1., std::nan("")}) {
    guard_->OnRound({.sessions = 16, .seconds = seconds, .plain_seconds = 1, .tokens = 1});
    guard_->OnRound({.sessions = 16, .seconds = 1, .plain_seconds = seconds, .tokens = 1});
  }
  EXPECT_EQ(guard_->Speedup(16), 0);
  Run(16, 0.5, 400);
  EXPECT_NEAR(guard_->Speedup(16), 0.5, 0.02);
}

}  // namespace
}  // namespace outrider
