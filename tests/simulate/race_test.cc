#include "simulate/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace outrider {
namespace {

using OutputDistribution = std::vector<double>;

double Sum(const OutputDistribution& distribution) {
  double sum = 0;
  for (const double p : distribution) sum += p;
  return sum;
}

TEST(RaceMatchDistribution, OneCandidateHasClosedForm) {
  const OutputDistribution p = {0.2, 0.3, 0.5}, q = {0.5, 0.3, 0.2};
  const OutputDistribution match = RaceMatchDistribution(p, q, 1);
  EXPECT_NEAR(match[0], 1 / (1 + 1.5 + 2.5), 1e-15);
  EXPECT_NEAR(match[1], 1 / (5.0 / 3 + 1 + 5.0 / 3), 1e-15);
  EXPECT_NEAR(match[2], 1 / (2.5 + 1.5 + 1), 1e-15);
}

// Two tokens: according to Daliri et al. 2024, at least (1 - d) / (1 + d); equal distributions
// always agree.
TEST(RaceMatchDistribution, HasThePublishedBounds) {
  for (const double p : {0.1, 0.4, 0.9}) {
    for (const double q : {0.2, 0.4, 0.5}) {
      const double d = std::abs(p - q);
      const double agree =
          Sum(RaceMatchDistribution(OutputDistribution{p, 1 - p}, OutputDistribution{q, 1 - q}, 1));
      EXPECT_GE(agree, (1 - d) / (1 + d) - 1e-12);
      EXPECT_LE(agree, 1 - d + 1e-12);
    }
  }
  EXPECT_NEAR(
      Sum(RaceMatchDistribution(OutputDistribution{0.2, 0.8}, OutputDistribution{0.2, 0.8}, 1)), 1,
      1e-15);
}

// All candidates include the winner, if the draft can contain it.
TEST(RaceMatchDistribution, AllCandidatesGiveTarget) {
  const OutputDistribution p = {0.1, 0.2, 0.3, 0.4}, q = {0.4, 0.3, 0.3, 0};
  for (const int count : {3, 4, 16}) {
    const OutputDistribution match = RaceMatchDistribution(p, q, count);
    for (size_t x = 0; x < 3; ++x) EXPECT_NEAR(match[x], p[x], 1e-14) << count;
    EXPECT_EQ(match[3], 0);
  }
  EXPECT_EQ(Sum(RaceMatchDistribution(OutputDistribution{1, 0}, OutputDistribution{0, 1}, 2)), 0);
}

TEST(RaceMatchDistribution, HoldsForExtremeRows) {
  const OutputDistribution p = {0.5, 0.25, 0.25}, q = {1e-310, 1e-9, 1};
  for (const int count : {1, 2, 3}) {
    for (const double m : RaceMatchDistribution(p, q, count)) {
      EXPECT_GE(m, 0);
      EXPECT_LE(m, 0.5);
    }
  }
}

// The same integral by Simpson's rule, over the number of tokens that arrive before x.
double ByQuadrature(const OutputDistribution& p, const OutputDistribution& q, size_t x,
                    size_t count) {
  const int kSteps = 20000;
  const auto integrand = [&](double e) {
    OutputDistribution before(count + 1, 0.0);  // Pr(this many, and x still wins the target's race)
    before[0] = std::exp(-e);
    for (size_t y = 0; y < p.size(); ++y) {
      if (y == x) continue;
      const double a = std::exp(-e * p[y] / p[x]), b = std::exp(-e * q[y] / q[x]);
      for (size_t n = count; n > 0; --n) {
        before[n] = before[n] * std::min(a, b) + before[n - 1] * std::max(a - b, 0.0);
      }
      before[0] *= std::min(a, b);
    }
    double sum = 0;
    for (size_t n = 0; n < count; ++n) sum += before[n];
    return sum;
  };
  // e = t / (1 - t)
  double sum = 0;
  for (int i = 0; i < kSteps; ++i) {
    const double t = static_cast<double>(i) / kSteps;
    const double weight = i == 0 ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * integrand(t / (1 - t)) / ((1 - t) * (1 - t));
  }
  return sum / (3.0 * kSteps);
}

TEST(RaceMatchDistribution, EqualsIntegralOverWinnersTime) {
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> uniform(0.05, 1);
  for (const size_t vocab : {2, 3, 5, 8}) {
    OutputDistribution p(vocab), q(vocab);
    for (double& x : p) x = uniform(rng);
    for (double& x : q) x = uniform(rng);
    const double total_p = Sum(p), total_q = Sum(q);
    for (double& x : p) x /= total_p;
    for (double& x : q) x /= total_q;
    for (size_t count = 1; count <= vocab; ++count) {
      const OutputDistribution match = RaceMatchDistribution(p, q, static_cast<int>(count));
      for (size_t x = 0; x < vocab; ++x) {
        EXPECT_NEAR(match[x], ByQuadrature(p, q, x, count), 1e-9) << vocab << " " << count;
      }
    }
  }
}

TEST(CheckRaceCost, AllowsAnyCandidatesUpToSixteen) {
  for (int count = 1; count <= 16; ++count) EXPECT_TRUE(CheckRaceCost(16, count).ok());
  EXPECT_TRUE(CheckRaceCost(1024, 1).ok());
  EXPECT_TRUE(CheckRaceCost(100, 2).ok());
  EXPECT_EQ(CheckRaceCost(40, 8).code(), Code::kInvalidArgument);
  EXPECT_EQ(CheckRaceCost(1024, 16).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
