#include "common/math/kseq.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "tests/support/rule_math.h"

namespace outrider {
namespace {

using testing::KSeqChoiceDistribution;
using testing::Overlap;
using testing::RatioChoiceDistribution;

// Rows of up to 12 tokens in the drafter's support; the target has mass elsewhere, too.
std::vector<RatioEntry> RandomEntries(std::mt19937_64& rng) {
  std::uniform_real_distribution<double> uniform;
  std::vector<RatioEntry> entries(1 + rng() % 12);
  double p = uniform(rng) < 0.5 ? 0 : uniform(rng), q = 0;
  TokenId id = 0;
  for (RatioEntry& e : entries) {
    e.id = id++;
    e.p = uniform(rng) < 0.2 ? 0 : std::pow(uniform(rng), 3);
    e.q = std::pow(uniform(rng), 3) + 1e-6;
    p += e.p;
    q += e.q;
  }
  for (RatioEntry& e : entries) {
    if (p > 0) e.p /= p;
    e.q /= q;
  }
  std::sort(entries.begin(), entries.end(), RanksBefore);
  return entries;
}

int Size(const std::vector<RatioEntry>& entries) { return static_cast<int>(entries.size()); }

double Beta(const std::vector<RatioEntry>& entries, double rho) {
  double beta = 0;
  for (const RatioEntry& e : entries) beta += std::min(e.q, e.p / rho);
  return beta;
}

TEST(RanksBefore, OrdersByRatioThenId) {
  EXPECT_TRUE(RanksBefore({.id = 9, .p = .5, .q = .1}, {.id = 1, .p = .5, .q = .2}));
  EXPECT_FALSE(RanksBefore({.id = 1, .p = .5, .q = .2}, {.id = 9, .p = .5, .q = .1}));
  EXPECT_TRUE(RanksBefore({.id = 1, .p = .5, .q = .25}, {.id = 2, .p = .25, .q = .125}));
  EXPECT_FALSE(RanksBefore({.id = 2, .p = .25, .q = .125}, {.id = 1, .p = .5, .q = .25}));
  EXPECT_TRUE(RanksBefore({.id = 1, .p = 0, .q = .3}, {.id = 2, .p = 0, .q = .1}));
  EXPECT_FALSE(RanksBefore({.id = 1, .p = .5, .q = .2}, {.id = 1, .p = .5, .q = .2}));
}

TEST(GeometricSum, EqualsClosedFormAndLimit) {
  for (int k = 1; k <= 16; ++k) {
    EXPECT_EQ(GeometricSum(0, k), k);
    EXPECT_EQ(GeometricSum(1, k), 1);
    EXPECT_NEAR(GeometricSum(0.3, k), (1 - std::pow(0.7, k)) / 0.3, 1e-14);
    EXPECT_NEAR(GeometricSum(1e-12, k), k, 1e-9);
  }
}

// The root that bisection over the whole range finds.
TEST(SolveKSeq, FindsTheLeastValidRho) {
  std::mt19937_64 rng(1);
  for (int trial = 0; trial < 5000; ++trial) {
    const std::vector<RatioEntry> entries = RandomEntries(rng);
    const int k = 1 + trial % 8;
    double low = 1, high = k;
    for (int step = 0; step < 100; ++step) {
      const double middle = (low + high) / 2;
      (GeometricSum(Beta(entries, middle), k) <= middle ? high : low) = middle;
    }
    if (GeometricSum(Beta(entries, 1), k) <= 1) high = 1;
    const KSeq kseq = SolveKSeq(entries.data(), Size(entries), k);
    EXPECT_NEAR(kseq.beta, Beta(entries, kseq.rho), 1e-15) << trial;
    EXPECT_EQ(kseq.gain, GeometricSum(kseq.beta, k)) << trial;
    EXPECT_LE(kseq.gain, kseq.rho * (1 + 1e-14)) << trial;  // valid
    EXPECT_NEAR(kseq.gain * kseq.beta, GeometricSum(Beta(entries, high), k) * Beta(entries, high),
                1e-9)
        << trial;
    if (kseq.beta < 0.99) {  // at beta = 1 the root has multiplicity k
      EXPECT_NEAR(kseq.rho, high, 1e-6) << trial;
    }
  }
}

TEST(SolveKSeq, HoldsItsEdgeCases) {
  const std::vector<RatioEntry> disjoint = {{.id = 0, .p = 0, .q = 1}};
  EXPECT_EQ(SolveKSeq(disjoint.data(), 1, 4).beta, 0);
  EXPECT_EQ(SolveKSeq(disjoint.data(), 1, 4).gain, 4);
  EXPECT_EQ(SolveKSeq(disjoint.data(), 1, 4).Trial(0, 1), 0);
  const std::vector<RatioEntry> sure = {{.id = 0, .p = 1, .q = 1}};
  EXPECT_NEAR(SolveKSeq(sure.data(), 1, 4).gain * SolveKSeq(sure.data(), 1, 4).beta, 1, 1e-12);
  EXPECT_EQ(SolveKSeq(sure.data(), 1, 1).rho, 1);
  EXPECT_EQ(SolveKSeq(sure.data(), 1, 1).Trial(1, 1), 1);
  EXPECT_EQ(SolveKSeq(sure.data(), 1, 2).Trial(1, 0), 0);  // a token with draft probability 0
}

TEST(ChoiceDistributions, OneCandidateKeepsItsDistribution) {
  std::mt19937_64 rng(2);
  for (int trial = 0; trial < 200; ++trial) {
    const std::vector<RatioEntry> entries = RandomEntries(rng);
    std::vector<double> by_kseq(entries.size()), by_ratio(entries.size());
    const KSeq kseq = SolveKSeq(entries.data(), Size(entries), 1);
    KSeqChoiceDistribution(kseq, entries.data(), Size(entries), 1, by_kseq.data());
    RatioChoiceDistribution(entries.data(), Size(entries), 1, by_ratio.data());
    for (size_t i = 0; i < entries.size(); ++i) {
      EXPECT_NEAR(by_kseq[i], entries[i].q, 1e-15);
      EXPECT_NEAR(by_ratio[i], entries[i].q, 1e-15);
    }
  }
}

TEST(ChoiceDistributions, AddUpToOne) {
  std::mt19937_64 rng(3);
  for (int trial = 0; trial < 1000; ++trial) {
    const std::vector<RatioEntry> entries = RandomEntries(rng);
    const int k = 1 + trial % 8;
    std::vector<double> distribution(entries.size());
    const auto sum = [&] { return std::accumulate(distribution.begin(), distribution.end(), 0.0); };
    const KSeq kseq = SolveKSeq(entries.data(), Size(entries), k);
    KSeqChoiceDistribution(kseq, entries.data(), Size(entries), k, distribution.data());
    EXPECT_NEAR(sum(), 1, 1e-13) << trial;
    EXPECT_GE(*std::min_element(distribution.begin(), distribution.end()), 0) << trial;
    RatioChoiceDistribution(entries.data(), Size(entries), k, distribution.data());
    EXPECT_NEAR(sum(), 1, 1e-13) << trial;
    double ahead = 0;
    for (size_t i = 0; i < distribution.size(); ++i) {
      ahead += entries[i].q;
      EXPECT_NEAR(std::accumulate(distribution.begin(),
                                  distribution.begin() + static_cast<long>(i) + 1, 0.0),
                  1 - std::pow(1 - ahead, k), 1e-13)
          << trial;
    }
  }
}

TEST(Overlap, IsTheSumOfTheLesser) {
  const std::vector<RatioEntry> entries = {{.p = .5, .q = .2}, {.p = .1, .q = .8}};
  const double distribution[] = {.3, .7};
  EXPECT_DOUBLE_EQ(Overlap(entries.data(), 2, distribution), .4);
}

// 1 - max over all subsets B of q(B)^k - p(B).
TEST(OptimalAcceptance, IsMinimalCutOverSubsets) {
  std::mt19937_64 rng(4);
  for (int trial = 0; trial < 400; ++trial) {
    const std::vector<RatioEntry> entries = RandomEntries(rng);
    const int k = 1 + trial % 5;
    double worst = 0, overlap = 0;
    for (uint32_t subset = 0; subset < 1u << entries.size(); ++subset) {
      double p = 0, q = 0;
      for (size_t i = 0; i < entries.size(); ++i) {
        if ((subset >> i & 1) == 0) continue;
        p += entries[i].p;
        q += entries[i].q;
      }
      worst = std::max(worst, std::pow(q, k) - p);
    }
    for (const RatioEntry& e : entries) overlap += std::min(e.p, e.q);
    const double alpha = OptimalAcceptance(entries.data(), Size(entries), k);
    EXPECT_NEAR(alpha, 1 - worst, 1e-13) << trial;
    if (k == 1) {
      EXPECT_NEAR(alpha, overlap, 1e-13) << trial;
    }
    EXPECT_LE(alpha, OptimalAcceptance(entries.data(), Size(entries), k + 1) + 1e-13) << trial;
  }
}

TEST(RecursiveRest, MatchesNormalisedResidualsByRound) {
  std::mt19937_64 rng(5);
  for (int trial = 0; trial < 500; ++trial) {
    const std::vector<RatioEntry> entries = RandomEntries(rng);
    double outside = 1;
    for (const RatioEntry& e : entries) outside -= e.p;
    std::vector<double> rest;  // r_i over the entries; `outside` is the mass elsewhere
    for (const RatioEntry& e : entries) rest.push_back(e.p);
    RecursiveRest recursive;
    for (int round = 0; round < 4; ++round) {
      double left = outside;
      for (size_t i = 0; i < entries.size(); ++i) {
        const RatioEntry& e = entries[i];
        const double want = std::min(1.0, rest[i] / e.q);
        EXPECT_NEAR(recursive.Trial(e.p, e.q), want, 1e-7) << trial << " " << round;
        rest[i] = std::max(0.0, rest[i] - e.q);
        left += rest[i];
      }
      if (left < 1e-3) break;
      for (double& r : rest) r /= left;
      outside /= left;
      recursive.Reject(entries.data(), Size(entries));
    }
  }
}

}  // namespace
}  // namespace outrider
