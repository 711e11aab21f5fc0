#include "common/rules/enumerate.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

const double kRow[] = {0.25, 0.75};
const ResidualRow<double> kDistribution{1, kRow, 2, {}};

TEST(Enumeration, MeetsEachPossibleOutcomeOnce) {
  Enumeration all;
  std::map<std::pair<size_t, size_t>, double> met;
  do {
    const size_t first = all.Choose(std::array{0.0, 0.5, 0.0, 0.5});
    const size_t second = first == 1 ? all.Choose(std::array{0.25, 0.75}) : 9;
    EXPECT_TRUE(met.emplace(std::pair(first, second), all.probability()).second);
  } while (all.Advance());
  EXPECT_EQ(met, (decltype(met){{{1, 0}, 0.125}, {{1, 1}, 0.375}, {{3, 9}, 0.5}}));
}

TEST(Enumeration, NoChoiceIsOneRun) {
  Enumeration all;
  EXPECT_EQ(all.probability(), 1);
  EXPECT_FALSE(all.Advance());
}

TEST(EnumeratingCoins, MeetsEachOutcomeWithItsProbability) {
  Enumeration all;
  double by_count[3] = {0, 0, 0};
  int runs = 0;
  do {
    EnumeratingCoins coins(&all);
    int heads = 0;
    while (heads < 2 && coins.Flip(Purpose::kAccept, heads, 0, heads == 0 ? 0.5 : 0.25)) ++heads;
    EXPECT_EQ(coins.Next(heads, kDistribution), -1);
    by_count[heads] += all.probability();
    EXPECT_EQ(coins.next_distribution()[1], 0.75);
    ++runs;
  } while (all.Advance());
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(by_count[0], 0.5);
  EXPECT_EQ(by_count[1], 0.375);
  EXPECT_EQ(by_count[2], 0.125);
}

TEST(EnumeratingCoins, BranchesOnNextTokenWhenAsked) {
  Enumeration all;
  double by_token[2] = {0, 0};
  do {
    EnumeratingCoins coins(&all, /*branch_next=*/true);
    const TokenId next = coins.Next(0, kDistribution);
    by_token[next] += all.probability();
  } while (all.Advance());
  EXPECT_EQ(by_token[0], 0.25);
  EXPECT_EQ(by_token[1], 0.75);
}

TEST(EnumeratingCoins, DoesNotBranchOnCertainty) {
  Enumeration all;
  EnumeratingCoins coins(&all);
  EXPECT_FALSE(coins.Flip(Purpose::kAccept, 0, 0, 0.0));
  EXPECT_TRUE(coins.Flip(Purpose::kAccept, 1, 0, 1.0));
  EXPECT_EQ(all.probability(), 1.0);
  EXPECT_FALSE(all.Advance());
}

// P(U < 1/2 and U < 1/4) is 1/4, not 1/8; another depth, purpose or trial is another number.
TEST(EnumeratingCoins, RepeatedCoinIsOneNumber) {
  const auto both = [](Purpose purpose, int depth, int trial) {
    Enumeration all;
    double sum = 0;
    do {
      EnumeratingCoins coins(&all);
      const bool first = coins.Flip(Purpose::kAccept, 0, 0, 0.5);
      const bool second = coins.Flip(purpose, depth, trial, 0.25);
      if (first && second) sum += all.probability();
    } while (all.Advance());
    return sum;
  };
  EXPECT_EQ(both(Purpose::kAccept, 0, 0), 0.25);
  EXPECT_EQ(both(Purpose::kAccept, 1, 0), 0.125);
  EXPECT_EQ(both(Purpose::kTrial, 0, 0), 0.125);
  EXPECT_EQ(both(Purpose::kAccept, 0, 1), 0.125);
}

EnumeratedPair Pair() {
  return {2,
          [](std::span<const TokenId>) {
            return EnumeratedPair::Row{0.25, 0.75};
          },
          [](std::span<const TokenId>) {
            return EnumeratedPair::Row{0.5, 0.5};
          }};
}

TEST(EnumeratedRound, FollowsShapeAndDrawCounts) {
  const EnumeratedPair pair = Pair();
  Enumeration all;
  double sum = 0;
  int runs = 0;
  do {
    EnumeratedRound round(pair, {}, {.length = 2, .branching = {2, 3}}, &all);
    const std::span<const int32_t> first = round.draws(DraftTree::kRoot);
    ASSERT_EQ(first.size(), 2u);
    EXPECT_EQ(round.draws(first[0]).size(), first[0] == first[1] ? 6u : 3u);
    EXPECT_EQ(round.depth(first[0]), 1);
    const int leaf = round.draws(first[0])[0];
    EXPECT_TRUE(round.draws(leaf).empty());
    sum += all.probability();
    ++runs;
  } while (all.Advance());
  EXPECT_EQ(sum, 1.0);
  EXPECT_EQ(runs, 2 * 64 + 2 * 8);
}

TEST(EnumeratedRound, EndsWhereTheStopRuleSays) {
  const StopFn stop = [](std::span<const TokenId> draft) { return draft.back() == 1; };
  const EnumeratedPair pair = Pair();
  Enumeration all;
  do {
    EnumeratedRound round(pair, {}, Sequences(1, 2), &all, stop);
    const int node = round.draws(DraftTree::kRoot)[0];
    EXPECT_EQ(round.draws(node).size(), round.token(node) == 1 ? 0u : 1u);
  } while (all.Advance());
}

TEST(ForEachEmission, ProbabilitiesSumToOne) {
  double mass = 0, accepted = 0;
  ForEachEmission(Rule::kToken, Pair(), {}, Sequences(1, 1), nullptr,
                  [&](std::span<const TokenId> tokens, int accepted_now, double probability) {
                    EXPECT_EQ(tokens.size(), static_cast<size_t>(accepted_now) + 1);
                    mass += probability;
                    accepted += accepted_now * probability;
                  });
  EXPECT_DOUBLE_EQ(mass, 1);
  EXPECT_DOUBLE_EQ(accepted, 0.75);  // 1 - d_TV
}

}  // namespace
}  // namespace outrider
