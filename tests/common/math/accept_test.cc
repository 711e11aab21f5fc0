#include "common/math/accept.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "tests/support/rule_math.h"

namespace outrider {
namespace {

using testing::AcceptedMass;
using testing::ResidualMass;

using Draft = SparseRow<double>;

TEST(AcceptedMass, IsTheClippedRatio) {
  const std::vector<double> target = {0.5, 0.25, 0.25};
  const TokenId ids[] = {2, 0};
  const double weights[] = {0.5, 0.5};
  const Draft draft{ids, weights, 2, 1};
  EXPECT_EQ(AcceptedMass(1.0, target.data(), draft, 2), 0.5);
  EXPECT_EQ(AcceptedMass(1.0, target.data(), draft, 0), 1.0);
  EXPECT_EQ(AcceptedMass(0.5, target.data(), draft, 0), 0.5);
}

TEST(AcceptedMass, RecoversFromASmallMass) {
  const double target[] = {0.8, 0.2};
  const TokenId ids[] = {0, 1};
  const double weights[] = {0.1, 0.9};
  EXPECT_DOUBLE_EQ(AcceptedMass(0.01, target, Draft{ids, weights, 2, 1}, 0), 0.08);
}

TEST(AcceptedMass, IsZeroOutsideTheDraft) {
  const double target[] = {0.5, 0.5};
  const TokenId ids[] = {0, 1};
  const double weights[] = {1, 0};
  EXPECT_EQ(AcceptedMass(1.0, target, Draft{ids, weights, 1, 1}, 1), 0.0);
  EXPECT_EQ(AcceptedMass(1.0, target, Draft{ids, weights, 2, 1}, 1), 0.0);
}

TEST(AcceptedMass, SaturatesWhereTheRatioOverflows) {
  const double target[] = {1.0};
  const TokenId ids[] = {0};
  const double weights[] = {1e-320};
  EXPECT_EQ(AcceptedMass(1.0, target, Draft{ids, weights, 1, 1}, 0), 1.0);
}

TEST(ResidualMass, EqualsTheDenseSum) {
  std::mt19937_64 rng(3);
  std::uniform_real_distribution<double> uniform;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<double> target(20), weights;
    std::vector<TokenId> ids;
    double sum = 0, draft_sum = 0;
    for (double& x : target) sum += x = uniform(rng);
    for (double& x : target) x /= sum;
    for (TokenId id = 0; id < 20; id += 1 + trial % 3) {
      ids.push_back(id);
      weights.push_back(uniform(rng));
      draft_sum += weights.back();
    }
    for (double& w : weights) w /= draft_sum;
    const Draft draft{ids.data(), weights.data(), static_cast<int>(ids.size()), 1};
    const double p = uniform(rng);
    double dense = 0;
    for (TokenId x = 0; x < 20; ++x) {
      dense += std::max(0.0, p * target[static_cast<size_t>(x)] - draft.Of(x));
    }
    EXPECT_NEAR(ResidualMass(p, target.data(), draft), dense, 1e-15);
    EXPECT_NEAR((ResidualRow<double>{p, target.data(), 20, draft}).Total(), dense, 1e-15);
  }
}

TEST(InnerAcceptance, HoldsItsEdgeCases) {
  EXPECT_EQ(InnerAcceptance(1, 0.25), 1.0);  // p = 1, S > 0
  EXPECT_EQ(InnerAcceptance(1, 0), 1.0);     // p = 1, S = 0: 0/0, defined as 1
  EXPECT_EQ(InnerAcceptance(0.5, 0), 0.0);   // S = 0
  EXPECT_EQ(InnerAcceptance(0, 0), 0.0);     // the draft had a token of target probability 0
  EXPECT_EQ(InnerAcceptance(0.5, 0.25), 1.0 / 3);
}

// The midpoint of each token's part of [0, 1) must select that token, at every size of tile.
TEST(ResidualRow, DrawsByInverseCdfOfResidual) {
  std::mt19937_64 rng(5);
  std::uniform_real_distribution<double> uniform;
  for (const int vocab : {1, 2, 5, 255, 256, 257, 1000}) {
    std::vector<double> target(static_cast<size_t>(vocab));
    double sum = 0;
    for (double& x : target) sum += x = uniform(rng) < 0.3 ? 0 : uniform(rng) + 1e-3;
    target.back() += 0.1;
    sum += 0.1;
    for (double& x : target) x /= sum;
    std::vector<TokenId> ids;
    std::vector<double> weights;
    for (TokenId id = vocab - 1; id >= 0; id -= 2) {
      ids.push_back(id);
      weights.push_back(0.9 / vocab);
    }
    const ResidualRow<double> row{
        0.8, target.data(), vocab, {ids.data(), weights.data(), static_cast<int>(ids.size()), 1}};
    std::vector<double> want(target.size());
    double total = 0;
    for (int x = 0; x < vocab; ++x) {
      const auto index = static_cast<size_t>(x);
      total += want[index] = std::max(0.0, 0.8 * target[index] - row.draft.Of(x));
    }
    if (total == 0) continue;
    EXPECT_NEAR(row.Total(), total, 1e-15);
    std::vector<double> distribution(target.size());
    row.Distribution(distribution.data());
    double before = 0;
    for (int x = 0; x < vocab; ++x) {
      const double w = want[static_cast<size_t>(x)];
      EXPECT_NEAR(distribution[static_cast<size_t>(x)], w / total, 1e-14);
      if (w > 1e-9) {
        EXPECT_EQ(row.Draw((before + 0.5 * w) / total), x) << vocab;
      }
      before += w;
    }
    for (const double coin : {0.0, std::nextafter(1.0, 0.0)}) {
      EXPECT_GT(want[static_cast<size_t>(row.Draw(coin))], 0.0);
    }
  }
}

TEST(ResidualRow, EmptyResidualFallsBackToTarget) {
  const double target[] = {0.25, 0.75};
  const TokenId ids[] = {0, 1};
  const ResidualRow<double> row{1, target, 2, {ids, target, 2, 1}};
  EXPECT_EQ(row.Draw(0.2), 0);
  EXPECT_EQ(row.Draw(0.3), 1);
  double distribution[2];
  row.Distribution(distribution);
  EXPECT_EQ(distribution[0], 0.25);
  EXPECT_EQ(distribution[1], 0.75);
}

TEST(ResidualRow, DrawsNothingFromZeroRow) {
  const float target[] = {0.f, 0.f};
  EXPECT_EQ((ResidualRow<float>{1, target, 2, {}}.Draw(0.5)), -1);
}

}  // namespace
}  // namespace outrider
