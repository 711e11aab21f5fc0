#include "verifier/rules/enumerate.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

const double kRow[] = {0.25, 0.75};
const ResidualRow<double, double> kLaw{1, kRow, 2, {}};

TEST(EnumeratingCoins, MeetsEveryOutcomeOnceWithItsProbability) {
  EnumeratingCoins coins;
  double by_count[3] = {0, 0, 0};
  int runs = 0;
  do {
    int heads = 0;
    while (heads < 2 && coins.Accept(heads, heads == 0 ? 0.5 : 0.25)) ++heads;
    coins.Next(heads, kLaw);
    by_count[heads] += coins.probability();
    EXPECT_EQ(coins.next_law()[1], 0.75);
    ++runs;
  } while (coins.Advance());
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(by_count[0], 0.5);
  EXPECT_EQ(by_count[1], 0.375);
  EXPECT_EQ(by_count[2], 0.125);
}

TEST(EnumeratingCoins, DoesNotBranchOnCertainty) {
  EnumeratingCoins coins;
  EXPECT_FALSE(coins.Accept(0, 0.0));
  EXPECT_TRUE(coins.Accept(1, 1.0));
  EXPECT_EQ(coins.probability(), 1.0);
  EXPECT_FALSE(coins.Advance());
}

// P(U < 1/2 and U < 1/4) is 1/4, not 1/8.
TEST(EnumeratingCoins, AnswersARowAskedTwiceFromOneCoin) {
  EnumeratingCoins coins;
  double both = 0;
  do {
    if (coins.Accept(0, 0.5) && coins.Accept(0, 0.25)) both += coins.probability();
  } while (coins.Advance());
  EXPECT_EQ(both, 0.25);
}

}  // namespace
}  // namespace outrider
