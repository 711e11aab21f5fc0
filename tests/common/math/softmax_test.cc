#include "common/math/softmax.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

namespace outrider {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// 1, lane counts and their neighbours, tiles and their neighbours, the largest vocabulary.
const int kSizes[] = {1,  2,   3,    7,    8,    15,   16,   17,   31,    33,
                      64, 255, 1000, 2047, 2048, 2049, 4096, 4099, 32000, 262144};

std::vector<float> RandomLogits(int n, uint32_t seed, float spread) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.f, spread);
  std::vector<float> row(static_cast<size_t>(n));
  for (float& x : row) x = normal(rng);
  row[static_cast<size_t>(n) / 2] += 5 * spread;  // an outlier
  return row;
}

TEST(Softmax, AgreesWithDoubleAtEverySize) {
  for (const int n : kSizes) {
    for (const float temperature : {0.3f, 1.f, 2.f}) {
      const std::vector<float> logits = RandomLogits(n, static_cast<uint32_t>(n), 3.f);
      std::vector<float> row = logits;
      Softmax(row, temperature);
      const double max = *std::max_element(logits.begin(), logits.end());
      double sum = 0, got_sum = 0;
      for (const float x : logits) sum += std::exp((x - max) / temperature);
      for (size_t i = 0; i < row.size(); ++i) {
        const double want = std::exp((logits[i] - max) / temperature) / sum;
        // exp of a float argument t inherits t's rounding: |t| * 2^-24, |t| < 100.
        ASSERT_NEAR(row[i], want, 1e-5 * want + 1e-38) << "n " << n << " entry " << i;
        got_sum += static_cast<double>(row[i]);
      }
      EXPECT_NEAR(got_sum, 1.0, 1e-6) << "n " << n;
    }
  }
}

// Summing a whole row in a float lane would lose 1e-4 here.
TEST(Softmax, SumsALongFlatRowAccurately) {
  std::vector<float> row(262144, 0.f);
  for (size_t i = 0; i < row.size(); i += 2) row[i] = -1.f;
  Softmax(row, 1.f);
  const double odd = 1 / (131072 * (1 + std::exp(-1.0)));
  EXPECT_NEAR(row[1] / odd, 1.0, 5e-7);
  EXPECT_NEAR(row[0] / (odd * std::exp(-1.0)), 1.0, 5e-7);
}

// Ties are broken by id: exp in a vector and in the tail must not differ in any bit.
TEST(Softmax, GivesEqualLogitsEqualProbabilities) {
  for (float logit = -20.f; logit < 0.f; logit += 0.37f) {
    std::vector<float> row(71, logit);
    row[40] = 0.f;
    Softmax(row, 0.7f);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_EQ(row[i], i == 40 ? row[40] : row[0]) << i;
    }
  }
}

TEST(Softmax, GivesNanNoMass) {
  std::vector<float> row(100, 0.f);
  row[3] = row[98] = kNan;
  Softmax(row, 1.f);
  EXPECT_EQ(row[3], 0.f);
  EXPECT_EQ(row[98], 0.f);
  EXPECT_FLOAT_EQ(row[0], 1.f / 98);
}

TEST(Softmax, GivesMinusInfinityNoMass) {
  std::vector<float> row(40, -kInf);
  row[20] = -300.f;
  Softmax(row, 1.f);
  EXPECT_EQ(row[20], 1.f);
  EXPECT_EQ(std::count(row.begin(), row.end(), 0.f), 39);
}

TEST(Softmax, SharesTheMassAmongPlusInfinities) {
  std::vector<float> row(40, 1.f);
  row[5] = row[38] = kInf;
  Softmax(row, 1.f);
  EXPECT_EQ(row[5], 0.5f);
  EXPECT_EQ(row[38], 0.5f);
  EXPECT_EQ(row[0], 0.f);
}

TEST(Softmax, InvalidRowGivesTokenZero) {
  for (const float bad : {kNan, -kInf}) {
    std::vector<float> row(33, bad);
    Softmax(row, 1.f);
    EXPECT_EQ(row[0], 1.f);
    EXPECT_EQ(std::count(row.begin(), row.end(), 0.f), 32);
  }
}

TEST(Softmax, SurvivesExtremeTemperatures) {
  std::vector<float> cold = {1.f, 2.f, 2.f};
  Softmax(cold, 1e-45f);
  EXPECT_THAT(cold, ::testing::ElementsAre(0.f, 0.5f, 0.5f));
  std::vector<float> hot = {1.f, 2.f, -3e38f, -kInf};
  Softmax(hot, 3e38f);
  EXPECT_NEAR(hot[0] + hot[1] + hot[2], 1.f, 1e-6);
  EXPECT_EQ(hot[3], 0.f);
}

TEST(RowArgmax, FindsLowestIndexOfMaximum) {
  for (const int n : kSizes) {
    std::vector<float> row = RandomLogits(n, 7, 1.f);
    const size_t index = static_cast<size_t>(n) * 3 / 4;
    row[index] = 50.f;
    row.back() = 50.f;
    EXPECT_EQ(RowArgmax(row), static_cast<TokenId>(index)) << n;
    EXPECT_EQ(RowMax(row), 50.f) << n;
  }
}

TEST(RowArgmax, PassesOverNan) {
  std::vector<float> row(50, kNan);
  EXPECT_EQ(RowArgmax(row), 0);
  row[49] = -1.f;
  EXPECT_EQ(RowArgmax(row), 49);
}

TEST(IsFinite, SeesOneBadEntryAnywhere) {
  for (const int n : kSizes) {
    std::vector<float> row(static_cast<size_t>(n), -3.4e38f);
    EXPECT_TRUE(IsFinite(row)) << n;
    for (const size_t index : {size_t{0}, row.size() / 2, row.size() - 1}) {
      for (const float bad : {kNan, kInf, -kInf}) {
        const float good = std::exchange(row[index], bad);
        EXPECT_FALSE(IsFinite(row)) << n << ' ' << index;
        row[index] = good;
      }
    }
  }
}

TEST(ZeroBelow, KeepsFloorAndSumsRest) {
  for (const int n : kSizes) {
    std::vector<float> row(static_cast<size_t>(n), 0.25f);
    row.back() = 0.5f;
    row[0] = n == 1 ? 0.5f : 0.125f;
    EXPECT_EQ(ZeroBelow(row, 0.25f), n == 1 ? 0.5 : 0.25 * (n - 2) + 0.5) << n;
    if (n > 1) {
      EXPECT_EQ(row[0], 0.f);
    }
  }
}

TEST(TopEntries, AgreesWithAFullSort) {
  for (const int n : kSizes) {
    std::vector<float> row = RandomLogits(n, static_cast<uint32_t>(n) + 1, 1.f);
    for (float& x : row) x = std::round(x * 8.f);  // many ties, about half not positive
    std::vector<RowEntry> sorted;
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i] > 0.f) sorted.push_back({static_cast<TokenId>(i), row[i]});
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const RowEntry& a, const RowEntry& b) { return a.value > b.value; });
    for (const int count : {0, 1, 5, 64, 1000}) {
      const std::vector<RowEntry> top = TopEntries(row, count);
      ASSERT_EQ(top.size(), std::min(sorted.size(), static_cast<size_t>(count))) << n;
      const bool full = count > 0 && top.size() == static_cast<size_t>(count);
      EXPECT_EQ(KthLargest(row, count).id, full ? top.back().id : 0) << n;
      EXPECT_EQ(KthLargest(row, count).value, full ? top.back().value : 0.f) << n;
      for (size_t i = 0; i < top.size(); ++i) {
        ASSERT_EQ(top[i].id, sorted[i].id) << "n " << n << " count " << count << " rank " << i;
        ASSERT_EQ(top[i].value, sorted[i].value);
      }
    }
  }
}

TEST(RowSums, AgreeWithDoubleAtEverySize) {
  for (const int n : kSizes) {
    std::vector<float> row = RandomLogits(n, static_cast<uint32_t>(n), 3.f);
    for (size_t i = 3; i + 1 < row.size(); i += 5) row[i] = i % 2 == 0 ? kNan : -kInf;
    const float max = RowMax(row), own = row[row.size() - 1];
    double sum = 0;
    int above = 0;
    for (const float x : row) {
      if (!std::isnan(x)) sum += std::exp(static_cast<double>(x) - static_cast<double>(max));
      above += x > own ? 1 : 0;
    }
    EXPECT_NEAR(ExpSum(row, max), sum, 2e-6 * sum) << n;
    EXPECT_EQ(CountAbove(row, own), above) << n;
    EXPECT_EQ(CountAbove(row, max), 0) << n;
  }
}

TEST(LargestEntries, TakeNegativeOnes) {
  for (const int n : kSizes) {
    std::vector<float> row = RandomLogits(n, static_cast<uint32_t>(n), 3.f);
    for (size_t i = 0; i < row.size(); ++i) row[i] = i % 7 == 3 ? kNan : -std::fabs(row[i]) - 1;
    if (n > 10) row[10] = row[n / 2] = -0.5f;
    std::vector<RowEntry> all;
    for (int i = 0; i < n; ++i) {
      if (!std::isnan(row[i])) all.push_back({i, row[i]});
    }
    std::sort(all.begin(), all.end(), LargerFirst);
    for (const int count : {1, 5, 20}) {
      const std::vector<RowEntry> got = LargestEntries(row, count);
      ASSERT_EQ(got.size(), std::min<size_t>(count, all.size())) << n;
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].id, all[i].id) << n;
    }
  }
}

TEST(TopEntries, FindsThemInARisingRow) {
  std::vector<float> row(4096);
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i);
  const std::vector<RowEntry> top = TopEntries(row, 64);
  ASSERT_EQ(top.size(), 64u);
  EXPECT_EQ(top.front().id, 4095);
  EXPECT_EQ(top.back().id, 4032);
}

}  // namespace
}  // namespace outrider
