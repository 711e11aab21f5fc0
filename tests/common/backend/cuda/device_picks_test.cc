// What the device reads from rows for those who draft, against what the host makes of them.
#include "common/backend/cuda/device_picks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/math/softmax.h"
#include "common/spec/draft_law.h"
#include "common/spec/warper.h"
#include "drafter/propose/draft_tree_builder.h"
#include "tests/common/backend/cuda/random_params.h"

namespace outrider {
namespace {

using testing::Random;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct TestRow {
  RowPick pick = RowPick::kLaw;
  SamplingParams params = {};
  std::vector<TokenId> prompt = {}, output = {}, path = {};
  uint64_t seed = 1;
  uint32_t position = 0;
  int count = 1;
  RowMeasure measure = RowMeasure::kNone;
  std::vector<float> logits = {};
};

struct Read {
  std::vector<RowEntry> entries;
  float measure = 0;
  std::vector<float> left;  // the row, as the device left it

  std::vector<TokenId> tokens() const {
    std::vector<TokenId> ids;
    for (const RowEntry& entry : entries) ids.push_back(entry.id);
    return ids;
  }
};

Warper WarperOf(const TestRow& row, int vocab, int allowed) {
  Warper warper(row.params, vocab, allowed);
  warper.ObservePrompt(row.prompt);
  for (const TokenId token : row.output) warper.ObserveOutput(token);
  return warper;
}

// With `gap` rows that are nobody's in front of each.
std::vector<Read> ReadOnDevice(const std::vector<TestRow>& rows, int vocab, int allowed,
                               int gap = 0) {
  constexpr float kUntouched = 1234.f;
  const Stream stream;
  DevicePicks picks(&stream);
  DraftBatch batch;
  std::vector<float> logits;
  size_t bytes = 0;
  for (const TestRow& row : rows) {
    batch.SkipRows(gap);
    const Warper warper = WarperOf(row, vocab, allowed);
    batch.BeginSession(SeenTokensOf(warper.Seen()), BiasesOf(row.params));
    batch.AddRow({.pick = row.pick,
                  .count = row.count,
                  .measure = row.measure,
                  .allowed = allowed,
                  .warp = RowWarpOf(row.params),
                  .seed = row.seed,
                  .position = row.position},
                 row.path);
    logits.insert(logits.end(), static_cast<size_t>(gap * vocab), kUntouched);
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    bytes += 8 + 8 * static_cast<size_t>(std::min(row.count, allowed));
  }
  auto memory = CudaBuffer::Allocate(Place::kDevice, logits.size() * sizeof(float));
  EXPECT_TRUE(memory.ok());
  auto* const device = static_cast<float*>(memory.value()->data());
  std::copy(logits.begin(), logits.end(), device);
  picks.Pick(batch, device, vocab);
  EXPECT_EQ(picks.bytes(), bytes);
  std::vector<Read> all;
  const float* at = device;
  for (const PickedRow& row : picks.Picked()) {
    EXPECT_EQ(std::count(at, at + gap * vocab, kUntouched), gap * vocab);
    at += gap * vocab;
    all.push_back({{row.entries.begin(), row.entries.end()}, row.measure, {at, at + vocab}});
    at += vocab;
  }
  EXPECT_EQ(all.size(), rows.size());
  return all;
}

TestRow RandomRow(Random& random, RowPick pick, int vocab, int allowed) {
  TestRow row{.pick = pick, .params = RandomParams(random, allowed)};
  if (random.Below(3) == 0) row.params = {};
  for (int i = random.Below(20); i > 0; --i) row.prompt.push_back(random.Below(allowed));
  for (int i = random.Below(20); i > 0; --i) row.output.push_back(random.Below(vocab));
  for (int i = random.Below(6); i > 0; --i) row.path.push_back(random.Below(allowed));
  row.seed = random.Bits();
  row.position = static_cast<uint32_t>(random.Below(5000));
  row.count = 1 + random.Below(pick == RowPick::kLaw ? 80 : 6);
  row.measure = static_cast<RowMeasure>(random.Below(3));
  if (pick == RowPick::kLaw) row.measure = RowMeasure::kNone;
  row.logits = random.Logits(vocab, random.Below(2) == 0);
  for (float& x : row.logits) {
    if (random.Below(30) == 0) x = -kInf;
  }
  return row;
}

std::vector<float> HostWarped(const TestRow& row, int vocab, int allowed) {
  std::vector<float> probs = row.logits;
  WarperOf(row, vocab, allowed).Warp(probs, row.path);
  return probs;
}

std::vector<float> HostMeasured(const TestRow& row, int vocab, int allowed) {
  if (row.pick == RowPick::kRace) return HostWarped(row, vocab, allowed);
  std::vector<float> probs = row.logits;
  Softmax(probs, 1.f);
  return probs;
}

void ExpectMeasure(const TestRow& row, const Read& read, int vocab, int allowed) {
  if (row.measure == RowMeasure::kNone) return;
  double largest = 0, entropy = 0;
  for (const float p : HostMeasured(row, vocab, allowed)) {
    const auto x = static_cast<double>(p);
    largest = std::max(largest, x);
    if (x > 0) entropy -= x * std::log(x);
  }
  const double expected = row.measure == RowMeasure::kLargest ? largest : entropy;
  EXPECT_NEAR(static_cast<double>(read.measure), expected, 3e-6 * std::max(expected, 1.));
}

void ExpectHosts(const TestRow& row, const Read& read, int vocab, int allowed) {
  if (row.pick == RowPick::kLaw) {
    // What is left of the row is the host's law; of that the entries are the largest, and the draft
    // law that they make is the one of the whole row.
    std::vector<float> left = read.left;
    std::fill(left.begin() + allowed, left.end(), 0.f);
    if (!row.params.greedy()) {
      ExpectSameLaw(HostWarped(row, vocab, allowed), left, "row");
    } else {
      left = HostWarped(row, vocab, allowed);
    }
    for (const float mass : {1.f, 0.9f}) {
      const DraftLawLimits limits{.mass = mass, .max_entries = row.count};
      const DraftLaw expected = MakeDraftLaw(left, limits);
      const DraftLaw actual = MakeDraftLaw(read.entries, limits);
      ASSERT_EQ(actual.ids, expected.ids);
      ASSERT_EQ(actual.weights, expected.weights);
    }
    ASSERT_EQ(read.entries.size(), TopEntries(left, row.count).size());
    return;
  }
  std::vector<float> logits = row.logits;
  Warper warper = WarperOf(row, vocab, allowed);
  const std::vector<TokenId> expected =
      row.pick == RowPick::kTop ? TopTokens(logits, row.count, row.path, warper)
                                : warper.Race(logits, row.path, row.count, row.seed, row.position);
  ASSERT_EQ(read.tokens(), expected);
  ExpectMeasure(row, read, vocab, allowed);
}

void ExpectHosts(const std::vector<TestRow>& rows, int vocab, int allowed) {
  const std::vector<Read> read = ReadOnDevice(rows, vocab, allowed);
  for (size_t i = 0; i < rows.size(); ++i) {
    SCOPED_TRACE("vocab " + std::to_string(vocab) + " row " + std::to_string(i) + " pick " +
                 std::to_string(static_cast<int>(rows[i].pick)) + " count " +
                 std::to_string(rows[i].count));
    ExpectHosts(rows[i], read[i], vocab, allowed);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

constexpr RowPick kPicks[] = {RowPick::kLaw, RowPick::kTop, RowPick::kRace};

class DevicePicksOf : public ::testing::TestWithParam<RowPick> {};

TEST_P(DevicePicksOf, GiveWhatTheHostMakesOfTheRow) {
  Random random(40 + static_cast<uint64_t>(GetParam()));
  for (const auto& [vocab, allowed, count] : {std::tuple{1, 1, 10},
                                              {2, 2, 60},
                                              {7, 5, 120},
                                              {33, 33, 120},
                                              {257, 250, 80},
                                              {1500, 1499, 40},
                                              {5001, 4999, 8},
                                              {131071, 131000, 2}}) {
    std::vector<TestRow> rows;
    for (int i = 0; i < count; ++i) {
      rows.push_back(RandomRow(random, GetParam(), vocab, allowed));
    }
    ExpectHosts(rows, vocab, allowed);
    if (HasFatalFailure()) return;
  }
}

TEST_P(DevicePicksOf, EqualEntriesByRisingId) {
  std::vector<TestRow> rows;
  for (const int count : {1, 2, 5, 31, 32, 40, 70}) {
    TestRow row{.pick = GetParam(), .count = count};
    row.logits.assign(70, 0.f);
    rows.push_back(row);
    for (size_t i = 0; i < 70; i += 3) row.logits[i] = 1.f;
    row.logits[40] = 2.f;
    rows.push_back(row);
    row.logits[0] = -0.f;
    row.logits[1] = 0.f;
    rows.push_back(row);
  }
  ExpectHosts(rows, 70, 70);
}

TEST_P(DevicePicksOf, BrokenRowsStayRows) {
  std::vector<TestRow> rows;
  for (const std::vector<float>& logits :
       std::vector<std::vector<float>>{{-kInf, -kInf, -kInf, -kInf},
                                       {kNan, kNan, kNan, kNan},
                                       {kNan, 1.f, -kInf, 2.f},
                                       {kInf, 1.f, kInf, kNan},
                                       {-kInf, -kInf, 3.f, -kInf},
                                       {2.f, -kInf, -kInf, -kInf},
                                       {-0.f, 0.f, -kInf, -200.f},
                                       {3e38f, -3e38f, 0.f, 1.f}}) {
    for (const int count : {1, 2, 4, 9}) {
      for (const float temperature : {1.f, 0.f, 1e-39f, 1e30f}) {
        for (int cut = 0; cut < 4; ++cut) {
          TestRow row{.pick = GetParam(), .count = count, .logits = logits};
          row.params.temperature = temperature;
          if (cut == 1) row.params.top_k = 1;
          if (cut == 2) row.params.top_p = 0.4f;
          if (cut == 3) row.params.min_p = 0.5f;
          if (GetParam() != RowPick::kLaw) row.measure = static_cast<RowMeasure>(count % 3);
          rows.push_back(row);
        }
      }
    }
  }
  ExpectHosts(rows, 4, 4);
}

// At temperature 0 a law is a point mass, which a race has one winner of.
TEST_P(DevicePicksOf, ColdRows) {
  Random random(44);
  std::vector<TestRow> rows;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(RandomRow(random, GetParam(), 300, 290));
    rows.back().params.temperature = 0.f;
  }
  ExpectHosts(rows, 300, 290);
}

INSTANTIATE_TEST_SUITE_P(Picks, DevicePicksOf, ::testing::ValuesIn(kPicks));

TEST(DevicePicks, PenaltiesCountThePath) {
  std::vector<TestRow> rows;
  for (const RowPick pick : kPicks) {
    TestRow row{.pick = pick, .count = 3, .logits = {1.f, 1.f, 1.f, 1.f, 1.f}};
    row.params.frequency_penalty = 0.25f;
    row.params.presence_penalty = 0.5f;
    row.params.repetition_penalty = 1.5f;
    rows.push_back(row);
    row.path = {2, 0, 2, 2};
    rows.push_back(row);
    row.output = {2, 1};
    row.prompt = {4};
    rows.push_back(row);
  }
  ExpectHosts(rows, 5, 5);
  EXPECT_EQ(ReadOnDevice(rows, 5, 5)[4].tokens(), (std::vector<TokenId>{1, 3, 4}));
}

TEST(DevicePicks, TheRaceOfTheWidestRow) {
  Random random(45);
  TestRow row{.pick = RowPick::kRace, .count = 3, .logits = random.Logits(kMaxVerifiedVocab, true)};
  ExpectHosts({row}, kMaxVerifiedVocab, kMaxVerifiedVocab);
}

TEST(DevicePicks, DoNotDependOnTheBatchAndLeaveOthersRows) {
  Random random(46);
  std::vector<TestRow> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(RandomRow(random, kPicks[i % 3], 600, 590));
  const std::vector<Read> together = ReadOnDevice(rows, 600, 590);
  const std::vector<Read> with_gaps = ReadOnDevice(rows, 600, 590, /*gap=*/2);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Read alone = ReadOnDevice({rows[i]}, 600, 590)[0];
    for (const Read* other : {&together[i], &with_gaps[i]}) {
      // To the bit, in any order.
      const DraftLawLimits limits{.mass = 1.f, .max_entries = 1 << 20};
      EXPECT_EQ(other->measure, alone.measure);
      ASSERT_EQ(other->entries.size(), alone.entries.size());
      if (rows[i].pick == RowPick::kLaw) {
        EXPECT_EQ(MakeDraftLaw(other->entries, limits).ids,
                  MakeDraftLaw(alone.entries, limits).ids);
        EXPECT_EQ(other->left, alone.left);
      } else {
        EXPECT_EQ(other->tokens(), alone.tokens());
      }
    }
  }
}

TEST(DevicePicks, NothingOfNothing) {
  const Stream stream;
  DevicePicks picks(&stream);
  picks.Pick(DraftBatch(), nullptr, 10);
  EXPECT_TRUE(picks.Picked().empty());
  EXPECT_EQ(picks.bytes(), 0u);
}

}  // namespace
}  // namespace outrider
