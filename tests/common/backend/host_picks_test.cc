#include "common/backend/host_picks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "common/spec/race.h"

namespace outrider {
namespace {

constexpr int kVocab = 7, kAllowed = 6;

// Distinct, so that every order is unique.
std::vector<float> Row(int seed) {
  std::vector<float> row(kVocab);
  for (int i = 0; i < kVocab; ++i) row[i] = static_cast<float>((i + seed) * 5 % 7) * 0.4f - 1.f;
  return row;
}

std::vector<double> Probabilities(std::span<const float> logits, double temperature) {
  std::vector<double> probs;
  for (const float x : logits) probs.push_back(std::exp(static_cast<double>(x) / temperature));
  const double sum = std::accumulate(probs.begin(), probs.end(), 0.);
  for (double& p : probs) p /= sum;
  return probs;
}

std::vector<TokenId> Ids(const PickedRow& row) {
  std::vector<TokenId> ids;
  for (const RowEntry& entry : row.entries) ids.push_back(entry.id);
  return ids;
}

// The ids of the `count` largest entries, in descending order.
template <class Row>
std::vector<TokenId> Largest(const Row& row, size_t count) {
  std::vector<TokenId> ids(row.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) {
    return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
  });
  ids.resize(std::min(count, ids.size()));
  return ids;
}

class HostPicksTest : public ::testing::Test {
 protected:
  void Add(const PickSpec& spec, std::vector<float> row, std::span<const TokenId> path = {}) {
    batch_.AddRow(spec, path);
    rows_.insert(rows_.end(), row.begin(), row.end());
  }
  std::span<const PickedRow> Read() { return picks_.Read(batch_, rows_.data(), kVocab); }

  PickBatch batch_;
  std::vector<float> rows_;
  HostPicks picks_;
};

TEST_F(HostPicksTest, GivesTheLargestProbabilities) {
  batch_.BeginSequence({});
  for (int seed = 0; seed < 3; ++seed) {
    Add({.count = 4, .allowed = kAllowed, .sampling = {.temperature = 0.7f}}, Row(seed));
  }
  const std::span<const PickedRow> picked = Read();
  ASSERT_EQ(picked.size(), 3u);
  for (int seed = 0; seed < 3; ++seed) {
    const std::vector<float> row = Row(seed);
    const std::vector<double> probs = Probabilities(std::span(row).first(kAllowed), 0.7);
    EXPECT_EQ(Ids(picked[seed]), Largest(probs, 4)) << seed;
    for (const RowEntry& entry : picked[seed].entries) {
      EXPECT_NEAR(static_cast<double>(entry.value), probs[static_cast<size_t>(entry.id)], 1e-6);
    }
  }
}

TEST_F(HostPicksTest, GivesMostLikelyTokensOfPath) {
  const RowSampling sampling{.temperature = 0, .frequency_penalty = 0.5f};
  const std::vector<SeenToken> seen = {{.token = 2, .in_output = 1}};
  const std::vector<TokenBias> biases = {{.token = 0, .bias = -9}};
  const PickSpec spec{.pick = RowPick::kTop, .count = 3, .allowed = kAllowed, .sampling = sampling};
  batch_.BeginSequence({.sampling = sampling, .seen = seen, .biases = biases, .suppressed = {}});
  const std::vector<TokenId> path = {4, 4};
  Add(spec, Row(1), path);
  batch_.BeginSequence({.sampling = sampling, .seen = {}, .biases = {}, .suppressed = {}});
  Add(spec, Row(1));
  const std::span<const PickedRow> picked = Read();

  std::vector<float> row = Row(1);
  row.resize(kAllowed);
  EXPECT_EQ(Ids(picked[1]), Largest(row, 3)) << "another sequence's penalties";
  row[2] -= 0.5f;
  row[4] -= 1.f;
  row[0] -= 9.f;
  EXPECT_EQ(Ids(picked[0]), Largest(row, 3));
}

TEST_F(HostPicksTest, GivesTheRacesWinners) {
  batch_.BeginSequence({});
  Add({.pick = RowPick::kRace, .count = 2, .allowed = kAllowed, .seed = 11, .position = 5}, Row(3));
  std::vector<float> probs;
  const std::vector<float> row = Row(3);
  for (const double p : Probabilities(std::span(row).first(kAllowed), 1)) {
    probs.push_back(static_cast<float>(p));
  }
  EXPECT_EQ(Ids(Read()[0]), RaceWinners(probs, 2, 11, 5));
}

// For a greedy row, of the model's own logits at temperature 1; for a race's row, as it is sampled.
TEST_F(HostPicksTest, MeasuresForStopRules) {
  batch_.BeginSequence({});
  const RowSampling greedy{.temperature = 0}, warm{.temperature = 0.5f};
  for (const RowMeasure measure : {RowMeasure::kLargest, RowMeasure::kEntropy}) {
    Add({.pick = RowPick::kTop, .measure = measure, .allowed = kAllowed, .sampling = greedy},
        Row(2));
    Add({.pick = RowPick::kRace, .measure = measure, .allowed = kAllowed, .sampling = warm},
        Row(2));
  }
  Add({.pick = RowPick::kTop, .allowed = kAllowed, .sampling = greedy}, Row(2));
  const std::span<const PickedRow> picked = Read();
  const std::vector<float> row = Row(2);
  const std::vector<double> raw = Probabilities(row, 1);
  const std::vector<double> sampled = Probabilities(std::span(row).first(kAllowed), 0.5);
  const auto largest = [](const std::vector<double>& p) {
    return *std::max_element(p.begin(), p.end());
  };
  const auto entropy = [](const std::vector<double>& probs) {
    double sum = 0;
    for (const double p : probs) sum -= p * std::log(p);
    return sum;
  };
  EXPECT_NEAR(picked[0].measure, largest(raw), 1e-6);
  EXPECT_NEAR(picked[1].measure, largest(sampled), 1e-6);
  EXPECT_NEAR(picked[2].measure, entropy(raw), 1e-5);
  EXPECT_NEAR(picked[3].measure, entropy(sampled), 1e-5);
  EXPECT_EQ(picked[4].measure, 0);
}

TEST_F(HostPicksTest, SaysWhichRowsAreBroken) {
  batch_.BeginSequence({});
  for (const RowPick pick : {RowPick::kDistribution, RowPick::kTop, RowPick::kRace}) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> row = Row(0);
      row[kAllowed] = bad;  // which is never sampled
      Add({.pick = pick, .allowed = kAllowed}, row);
      row[kAllowed - 1] = bad;
      Add({.pick = pick, .allowed = kAllowed}, row);
    }
  }
  bool expected = true;
  for (const PickedRow& row : Read()) {
    expected = !expected;
    EXPECT_EQ(row.broken, expected);
    EXPECT_EQ(row.entries.empty(), expected);
  }
}

TEST_F(HostPicksTest, PicksWhatEachSequencesMaskLeaves) {
  const std::vector<uint32_t> mask = {0b010110};
  const PickSpec spec{.count = 9, .allowed = kAllowed};
  batch_.BeginSequence({});
  Add(spec, Row(0));
  batch_.BeginSequence({.mask = mask});
  Add(spec, Row(0));
  batch_.BeginSequence({});
  Add(spec, Row(0));
  const std::span<const PickedRow> picked = Read();
  EXPECT_EQ(picked[0].entries.size(), static_cast<size_t>(kAllowed));
  std::vector<TokenId> ids = Ids(picked[1]);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, (std::vector<TokenId>{1, 2, 4}));
  EXPECT_EQ(picked[2].entries.size(), static_cast<size_t>(kAllowed));
}

TEST_F(HostPicksTest, ReadsABatchAfterAnother) {
  std::vector<float> row = Row(0);
  row.resize(kAllowed);
  const SeenToken seen{.token = Largest(row, 1)[0], .in_output = 3};
  const RowSampling sampling{.temperature = 0, .presence_penalty = 9};
  const PickSpec spec{.pick = RowPick::kTop, .allowed = kAllowed, .sampling = sampling};
  batch_.BeginSequence({.sampling = sampling, .seen = {&seen, 1}, .biases = {}, .suppressed = {}});
  Add(spec, Row(0));
  EXPECT_NE(Ids(Read()[0])[0], seen.token);
  batch_.Clear();
  rows_.clear();
  EXPECT_TRUE(batch_.empty());
  batch_.BeginSequence({.sampling = sampling, .seen = {}, .biases = {}, .suppressed = {}});
  Add(spec, Row(0));
  EXPECT_EQ(Ids(Read()[0])[0], seen.token);
}

}  // namespace
}  // namespace outrider
