#include "verifier/control/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace outrider {
namespace {

double Sum(const Belief& b) { return std::accumulate(b.begin(), b.end(), 0.0); }

// Accepted draft tokens of a round in which depth j is accepted with probability chance[j].
int Round(const std::vector<double>& chance, uint64_t* state) {
  int accepted = 0;
  for (const double c : chance) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    if (static_cast<double>(*state >> 11) * 0x1p-53 >= c) break;
    ++accepted;
  }
  return accepted;
}

TEST(Acceptance, TokensAreTheTruncatedGeometricMean) {
  const DepthProfile profile(8);
  for (size_t k = 0; k < kLevels; k += 5) {
    const double a = AcceptanceLevels()[k];
    EXPECT_NEAR(profile.TokensAt(8)[k], (1 - std::pow(a, 9)) / (1 - a), 1e-9);
    EXPECT_EQ(profile.TokensAt(0)[k], 1);
  }
  EXPECT_NEAR(Sum(IgnorantBelief()), 1, 1e-12);
  EXPECT_NEAR(MeanLevel(IgnorantBelief()), 2.0 / 3, 1e-3);  // Beta(2, 1)
  EXPECT_NEAR(TrialsAfter(IgnorantBelief()), 3, 0.05);
}

TEST(Acceptance, MomentsAreTheDistributions) {
  const DepthProfile profile(8);
  const Belief& values = profile.TokensAt(8);
  const Belief& belief = IgnorantBelief();
  double mean = 0, variance = 0;
  for (size_t k = 0; k < kLevels; ++k) mean += belief[k] * values[k];
  for (size_t k = 0; k < kLevels; ++k) variance += belief[k] * std::pow(values[k] - mean, 2);
  EXPECT_NEAR(MomentsOf(values, belief).mean, mean, 1e-12);
  EXPECT_NEAR(MomentsOf(values, belief).variance, variance, 1e-12);
  Belief certain{};
  certain[7] = 1;
  EXPECT_EQ(MomentsOf(values, certain).mean, values[7]);
  EXPECT_NEAR(MomentsOf(values, certain).variance, 0, 1e-12);
}

TEST(Acceptance, StopCountsOnlyObservedTokens) {
  const DepthProfile profile(8);
  Belief long_round = IgnorantBelief(), short_round = IgnorantBelief();
  // Two tokens are accepted and the third is not: the same for every length above two.
  profile.Update(2, 3, &short_round);
  profile.Update(2, 8, &long_round);
  EXPECT_EQ(long_round, short_round);
  // Both of two tokens are accepted: no failure was observed.
  Belief complete = IgnorantBelief();
  profile.Update(2, 2, &complete);
  EXPECT_GT(MeanLevel(complete), MeanLevel(short_round));
  EXPECT_NEAR(Sum(complete), 1, 1e-12);
}

TEST(Acceptance, BayesFindsTheLevel) {
  const DepthProfile profile(4);
  for (const double a : {0.1, 0.5, 0.85}) {
    Belief belief = IgnorantBelief();
    uint64_t state = 1;
    for (int i = 0; i < 600; ++i) profile.Update(Round({a, a, a, a}, &state), 4, &belief);
    EXPECT_NEAR(MeanLevel(belief), a, 0.04);
    EXPECT_GT(TrialsAfter(belief), 300);
  }
}

TEST(Acceptance, NothingBreaksAtTheEnds) {
  const DepthProfile profile(64);
  Belief belief = IgnorantBelief();
  for (int i = 0; i < 2000; ++i) profile.Update(64, 64, &belief);
  EXPECT_GT(MeanLevel(belief), 0.99);
  for (int i = 0; i < 2000; ++i) profile.Update(0, 64, &belief);
  EXPECT_NEAR(Sum(belief), 1, 1e-9);
}

TEST(Acceptance, LearnsThatLaterDepthsAreHarder) {
  DepthProfile profile(4);
  Belief belief = IgnorantBelief();
  uint64_t state = 3;
  const std::vector<double> chance = {0.9, 0.7, 0.5, 0.3};
  for (int i = 0; i < 3000; ++i) {
    const int accepted = Round(chance, &state);
    const double mean = MeanLevel(belief);
    profile.Update(accepted, 4, &belief);
    Mix(IgnorantBelief(), 0.002, &belief);
    profile.Learn(accepted, 4, mean);
  }
  double reach = 1, tokens = 1;
  for (int g = 1; g <= 4; ++g) {
    tokens += reach *= chance[static_cast<size_t>(g - 1)];
    EXPECT_NEAR(profile.Tokens(belief, g), tokens, 0.07 * tokens) << g;
  }
}

}  // namespace
}  // namespace outrider
