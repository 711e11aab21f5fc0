#include "common/spec/race.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "common/math/coins.h"
#include "common/math/philox.h"
#include "tests/support/statistics.h"

namespace outrider {
namespace {

using testing::ChiSquarePValue;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::kFalseAlarm;

std::vector<double> Doubles(const std::vector<float>& probs) {
  return {probs.begin(), probs.end()};
}

std::vector<float> RandomDistribution(size_t vocab, uint32_t seed, float sharpness) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  std::vector<float> probs(vocab);
  double sum = 0;
  for (float& p : probs) sum += static_cast<double>(p = std::exp(sharpness * normal(rng)));
  for (float& p : probs) p = static_cast<float>(static_cast<double>(p) / sum);
  return probs;
}

TEST(RaceWinner, HasTheRowsDistribution) {
  const std::vector<float> probs = {0.4f, 0.f, 0.25f, 0.05f, 0.f, 0.3f};
  std::vector<int64_t> counts(probs.size());
  for (uint32_t position = 0; position < 200000; ++position) {
    ++counts[static_cast<size_t>(RaceWinner(probs, 5, position))];
  }
  EXPECT_GT(ChiSquarePValue(counts, Doubles(probs)), kFalseAlarm);
  std::fill(counts.begin(), counts.end(), 0);
  for (uint64_t seed = 0; seed < 200000; ++seed) {
    ++counts[static_cast<size_t>(RaceWinner(probs, seed << 20, 3))];
  }
  EXPECT_GT(ChiSquarePValue(counts, Doubles(probs)), kFalseAlarm);
}

// Tokens of several tiles, the last one short.
TEST(RaceWinner, HasAWideRowsDistribution) {
  for (const float sharpness : {0.5f, 2.f}) {
    const std::vector<float> probs = RandomDistribution(700, 3, sharpness);
    std::vector<int64_t> counts(probs.size());
    for (uint32_t position = 0; position < 100000; ++position) {
      ++counts[static_cast<size_t>(RaceWinner(probs, 6, position))];
    }
    EXPECT_GT(ChiSquarePValue(counts, Doubles(probs)), kFalseAlarm) << sharpness;
  }
}

// After the first arrival the others race on: Pr(a, b) = p(a) p(b) / (1 - p(a)).
TEST(RaceWinners, FollowSamplingWithoutReplacement) {
  const std::vector<float> probs = {0.5f, 0.25f, 0.15f, 0.1f};
  std::vector<double> distribution(16, 0.0);
  for (size_t a = 0; a < 4; ++a) {
    for (size_t b = 0; b < 4; ++b) {
      const auto p = static_cast<double>(probs[a]);
      if (a != b) distribution[4 * a + b] = p * static_cast<double>(probs[b]) / (1 - p);
    }
  }
  std::vector<int64_t> counts(16);
  for (uint32_t position = 0; position < 100000; ++position) {
    const std::vector<TokenId> winners = RaceWinners(probs, 2, 7, position);
    ASSERT_EQ(winners.size(), 2u);
    ++counts[static_cast<size_t>(4 * winners[0] + winners[1])];
  }
  EXPECT_GT(ChiSquarePValue(counts, distribution), kFalseAlarm);
}

TEST(RaceWinners, AreDistinctAndExtendShorterLists) {
  const std::vector<float> probs = RandomDistribution(1000, 4, 1.f);
  for (uint32_t position = 0; position < 500; ++position) {
    const std::vector<TokenId> many = RaceWinners(probs, 20, 8, position);
    EXPECT_EQ(std::set<TokenId>(many.begin(), many.end()).size(), 20u);
    for (const int count : {1, 2, 7}) {
      EXPECT_EQ(RaceWinners(probs, count, 8, position),
                std::vector<TokenId>(many.begin(), many.begin() + count));
    }
    EXPECT_EQ(RaceWinner(probs, 8, position), many[0]);
  }
}

TEST(RaceWinners, AreOnlyTokensOfPositiveProbability) {
  std::vector<float> probs(600, 0.f);
  EXPECT_THAT(RaceWinners(probs, 3, 1, 1), IsEmpty());
  EXPECT_EQ(RaceWinner(probs, 1, 1), -1);
  EXPECT_EQ(RaceWinner({}, 1, 1), -1);
  probs[511] = 1e-38f;
  EXPECT_THAT(RaceWinners(probs, 3, 1, 1), ElementsAre(511));
  probs[3] = 0.5f;
  probs[400] = 0.5f;
  for (uint32_t position = 0; position < 2000; ++position) {
    const std::vector<TokenId> winners = RaceWinners(probs, 5, 2, position);
    ASSERT_EQ(winners.size(), 3u);
    EXPECT_EQ(winners[2], 511);
  }
}

TEST(RaceWinners, NoiseDoesNotDependOnWidth) {
  const std::vector<float> probs = RandomDistribution(300, 9, 1.f);
  for (uint32_t position = 0; position < 300; ++position) {
    const std::vector<TokenId> winners = RaceWinners(probs, 4, 3, position);
    for (const size_t width : {301u, 512u, 513u, 5000u}) {
      std::vector<float> padded = probs;
      padded.resize(width, 0.f);
      EXPECT_EQ(RaceWinners(padded, 4, 3, position), winners) << width;
    }
  }
}

// Pr(both pick x) = 1 / sum_y max(p(y) / p(x), q(y) / q(x)): x must come first in both races.
TEST(RaceWinner, AgreementOfRowsMatchesTheory) {
  const std::vector<float> p = {0.5f, 0.2f, 0.2f, 0.1f, 0.f}, q = {0.3f, 0.4f, 0.1f, 0.1f, 0.1f};
  std::vector<double> distribution;
  double agree = 0, distance = 0;
  for (size_t x = 0; x < p.size(); ++x) {
    const auto px = static_cast<double>(p[x]), qx = static_cast<double>(q[x]);
    distance += std::abs(px - qx) / 2;
    double sum = 0;
    for (size_t y = 0; y < p.size(); ++y) {
      sum += std::max(static_cast<double>(p[y]) / px, static_cast<double>(q[y]) / qx);
    }
    distribution.push_back(px > 0 && qx > 0 ? 1 / sum : 0);
    agree += distribution.back();
  }
  EXPECT_GE(agree, (1 - distance) / (1 + distance));
  distribution.push_back(1 - agree);
  std::vector<int64_t> counts(distribution.size());
  for (uint32_t position = 0; position < 200000; ++position) {
    const TokenId a = RaceWinner(p, 11, position), b = RaceWinner(q, 11, position);
    ++counts[a == b ? static_cast<size_t>(a) : p.size()];
  }
  EXPECT_GT(ChiSquarePValue(counts, distribution), kFalseAlarm);
}

TEST(RaceWinner, PositionsAreIndependent) {
  const std::vector<float> probs = {0.4f, 0.3f, 0.2f, 0.1f};
  std::vector<double> distribution;
  for (const float a : probs) {
    for (const float b : probs) distribution.push_back(static_cast<double>(a * b));
  }
  std::vector<int64_t> positions(16), seeds(16);
  for (uint32_t i = 0; i < 100000; ++i) {
    ++positions[static_cast<size_t>(4 * RaceWinner(probs, 12, i) + RaceWinner(probs, 12, i + 1))];
    ++seeds[static_cast<size_t>(4 * RaceWinner(probs, i, 5) + RaceWinner(probs, i + 1, 5))];
  }
  EXPECT_GT(ChiSquarePValue(positions, distribution), kFalseAlarm);
  EXPECT_GT(ChiSquarePValue(seeds, distribution), kFalseAlarm);
}

// Arrival times of all tokens, one by one: the minimum of a tile's 256 noises is Exp(256) at a
// uniform position, each other one is the minimum plus a fresh Exp(1).
std::vector<TokenId> BruteForceWinners(const std::vector<float>& probs, int count, uint64_t seed,
                                       uint32_t position) {
  std::vector<std::pair<double, TokenId>> arrivals;
  for (uint32_t x = 0; x < probs.size(); ++x) {
    if (!(probs[x] > 0)) continue;
    const PhiloxBlock bits = Philox({{position, x / 256, static_cast<uint32_t>(Purpose::kRace), 0}},
                                    static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    double noise = -std::log1p(-UnitInterval(bits)) / 256;
    if (bits.word[2] % 256 != x % 256) {
      noise += -std::log1p(-Coin(seed, position, x, Purpose::kRace, 1));
    }
    arrivals.emplace_back(noise / static_cast<double>(probs[x]), static_cast<TokenId>(x));
  }
  std::sort(arrivals.begin(), arrivals.end());
  std::vector<TokenId> winners;
  for (size_t i = 0; i < arrivals.size() && i < static_cast<size_t>(count); ++i) {
    winners.push_back(arrivals[i].second);
  }
  return winners;
}

TEST(RaceWinners, MatchFullScan) {
  const auto expect_same = [](const std::vector<float>& probs, int count, uint32_t positions) {
    for (uint32_t position = 0; position < positions; ++position) {
      const uint64_t seed = (uint64_t{position} << 33) + 1;
      EXPECT_EQ(RaceWinners(probs, count, seed, position),
                BruteForceWinners(probs, count, seed, position))
          << probs.size() << " tokens, position " << position;
    }
  };
  for (const float sharpness : {0.f, 1.f, 3.f}) {
    expect_same(RandomDistribution(131072, 13, sharpness), 6, 8);
    expect_same(RandomDistribution(8192, 14, sharpness), 1, 200);
    expect_same(RandomDistribution(8192, 15, sharpness), 12, 200);
  }
  for (uint32_t width = 1; width < 800; width += 7)
    expect_same(RandomDistribution(width, width, 2.f), 3, 3);
}

}  // namespace
}  // namespace outrider
