#include "common/math/coins.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <vector>

#include "tests/support/statistics.h"

namespace outrider {
namespace {

constexpr Purpose kPurposes[] = {Purpose::kPlainToken, Purpose::kDraftToken, Purpose::kAccept,
                                 Purpose::kNextToken,  Purpose::kTrial,      Purpose::kChoice,
                                 Purpose::kRace};

// Philox is a bijection of its counter: equal numbers would mean equal counters (53 of 128 bits are
// kept: among 2e5 of them a collision has probability 2e-6).
TEST(Coin, IsNeverDrawnTwice) {
  std::set<double> coins;
  size_t drawn = 0;
  for (const uint64_t seed : {0ull, 1ull, 1ull << 32, 0xffffffffffffffffull}) {
    for (uint32_t round = 0; round < 60; ++round) {
      for (uint32_t row = 0; row < 30; ++row) {
        for (const Purpose purpose : kPurposes) {
          for (uint32_t trial = 0; trial < 4; ++trial, ++drawn) {
            coins.insert(Coin(seed, round, row, purpose, trial));
          }
        }
      }
    }
  }
  EXPECT_EQ(coins.size(), drawn);
}

TEST(Coin, IsAFunctionOfItsKey) {
  EXPECT_EQ(Coin(7, 3, 2, Purpose::kAccept), Coin(7, 3, 2, Purpose::kAccept));
  EXPECT_GE(Coin(7, 3, 2, Purpose::kAccept), 0.0);
  EXPECT_LT(Coin(7, 3, 2, Purpose::kAccept), 1.0);
}

// Two random numbers whose keys differ in one part fill an 8 x 8 grid like independent ones.
void ExpectIndependent(double (*first)(uint32_t), double (*second)(uint32_t)) {
  std::array<int64_t, 64> counts{};
  const std::vector<double> distribution(64, 1.0 / 64);
  for (uint32_t i = 0; i < 200000; ++i) {
    ++counts[static_cast<size_t>(first(i) * 8) * 8 + static_cast<size_t>(second(i) * 8)];
  }
  EXPECT_GT(testing::ChiSquarePValue(counts, distribution), testing::kFalseAlarm);
}

TEST(Coin, DrafterIsIndependentOfVerifier) {
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kDraftToken); },
                    [](uint32_t i) { return Coin(9, i, 0, Purpose::kAccept); });
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kDraftToken); },
                    [](uint32_t i) { return Coin(9, i, 0, Purpose::kNextToken); });
}

TEST(Coin, TrialsAndChoiceAreIndependent) {
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kTrial, 0); },
                    [](uint32_t i) { return Coin(9, i, 0, Purpose::kTrial, 1); });
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kDraftToken, 1); },
                    [](uint32_t i) { return Coin(9, i, 0, Purpose::kTrial, 1); });
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kChoice); },
                    [](uint32_t i) { return Coin(9, i, 0, Purpose::kTrial, 0); });
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kChoice); },
                    [](uint32_t i) { return Coin(9, i, 0, Purpose::kAccept); });
}

TEST(Coin, RowsAreIndependent) {
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 0, Purpose::kAccept); },
                    [](uint32_t i) { return Coin(9, i, 1, Purpose::kAccept); });
}

TEST(Coin, RoundsAreIndependent) {
  ExpectIndependent([](uint32_t i) { return Coin(9, i, 3, Purpose::kAccept); },
                    [](uint32_t i) { return Coin(9, i + 1, 3, Purpose::kAccept); });
}

TEST(Coin, SeedsAreIndependent) {
  ExpectIndependent([](uint32_t i) { return Coin(i, 0, 0, Purpose::kAccept); },
                    [](uint32_t i) { return Coin(i + 1, 0, 0, Purpose::kAccept); });
}

}  // namespace
}  // namespace outrider
