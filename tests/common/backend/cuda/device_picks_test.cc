// Compares the entries that the device picks from rows for drafting with the host's.
#include "common/backend/cuda/device_picks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "common/backend/cuda/kernels/pick_parts.h"
#include "common/math/coins.h"
#include "common/math/softmax.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/sequence_sampling.h"
#include "tests/common/backend/cuda/random_params.h"
#include "tests/support/cuda_emulation/emulator.h"
#include "tests/support/extreme_floats.h"
#include "tests/support/sequence_rows.h"

namespace outrider {
namespace {

using testing::kInf;
using testing::kNan;
using testing::Random;

struct TestRow {
  RowPick pick = RowPick::kDistribution;
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
  bool broken = false;

  std::vector<TokenId> tokens() const {
    std::vector<TokenId> ids;
    for (const RowEntry& entry : entries) ids.push_back(entry.id);
    return ids;
  }
};

SequenceSampling SamplingOf(const TestRow& row, int vocab, int allowed) {
  SequenceSampling sampling(row.params, vocab, allowed);
  sampling.ObservePrompt(row.prompt);
  for (const TokenId token : row.output) sampling.ObserveOutput(token);
  return sampling;
}

// `left`: if set, what the device leaves in the rows.
std::vector<Read> ReadOnDevice(const std::vector<TestRow>& rows, int vocab, int allowed,
                               std::vector<float>* left = nullptr) {
  const Stream stream;
  DevicePicks picks(&stream);
  PickBatch batch;
  std::vector<float> logits;
  size_t bytes = 0;
  for (const TestRow& row : rows) {
    const SequenceSampling sampling = SamplingOf(row, vocab, allowed);
    batch.BeginSequence(sampling.state());
    batch.AddRow({.pick = row.pick,
                  .count = row.count,
                  .measure = row.measure,
                  .allowed = allowed,
                  .sampling = RowSamplingOf(row.params),
                  .seed = row.seed,
                  .position = row.position},
                 row.path);
    logits.insert(logits.end(), row.logits.begin(), row.logits.end());
    bytes += 16 + 8 * static_cast<size_t>(std::min(row.count, allowed));
  }
  auto memory = CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs,
                                     logits.size() * sizeof(float), nullptr);
  EXPECT_TRUE(memory.ok());
  auto* const device = static_cast<float*>(memory.value()->data());
  std::copy(logits.begin(), logits.end(), device);
  picks.Pick(batch, device, vocab);
  EXPECT_EQ(picks.bytes(), bytes);
  std::vector<Read> all;
  for (const PickedRow& row : picks.Picked()) {
    all.push_back({{row.entries.begin(), row.entries.end()}, row.measure, row.broken});
  }
  EXPECT_EQ(all.size(), rows.size());
  if (left != nullptr) left->assign(device, device + logits.size());
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
  row.count = 1 + random.Below(pick == RowPick::kDistribution ? 80 : 6);
  row.measure = static_cast<RowMeasure>(random.Below(3));
  if (pick == RowPick::kDistribution) row.measure = RowMeasure::kNone;
  row.logits = random.Logits(vocab, random.Below(2) == 0);
  for (float& x : row.logits) {
    if (random.Below(30) == 0) x = -kInf;
  }
  return row;
}

std::vector<float> HostDistribution(const TestRow& row, int vocab, int allowed) {
  std::vector<float> probs = row.logits;
  MakeDistribution(SamplingOf(row, vocab, allowed), probs, row.path);
  return probs;
}

std::vector<float> HostMeasured(const TestRow& row, int vocab, int allowed) {
  if (row.pick == RowPick::kRace) return HostDistribution(row, vocab, allowed);
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

// Expects the largest entries of the host's distribution, ties by rising id.
void ExpectLargest(const TestRow& row, const Read& read, int vocab, int allowed) {
  const std::vector<float> host = HostDistribution(row, vocab, allowed);
  std::vector<float> device = host;  // with the device's values
  std::vector<bool> is_picked(host.size(), false);
  float least = kInf;
  TokenId last = -1;  // of the least ones on the host
  for (const RowEntry& entry : read.entries) {
    const auto id = static_cast<size_t>(entry.id);
    ASSERT_FALSE(is_picked[id]) << "token " << entry.id << " twice";
    ASSERT_GT(entry.value, 0.f);
    is_picked[id] = true;
    device[id] = entry.value;
    if (host[id] < least || (host[id] == least && entry.id > last)) last = entry.id;
    least = std::min(least, host[id]);
  }
  ExpectSameDistribution(host, device, "entries");
  const auto likely = std::count_if(host.begin(), host.end(), [](float p) { return p > 1e-35f; });
  ASSERT_LE(read.entries.size(), static_cast<size_t>(row.count));
  ASSERT_GE(read.entries.size(), static_cast<size_t>(std::min<std::ptrdiff_t>(row.count, likely)));
  if (read.entries.size() < static_cast<size_t>(row.count)) return;
  for (size_t i = 0; i < host.size(); ++i) {
    if (is_picked[i]) continue;
    ASSERT_LE(host[i], least * (1 + 4e-6f) + 1e-35f) << "token " << i << " is missing";
    ASSERT_TRUE(host[i] != least || static_cast<TokenId>(i) > last) << "equal to token " << i;
  }
}

void ExpectHosts(const TestRow& row, const Read& read, int vocab, int allowed) {
  ASSERT_EQ(read.broken, !IsFinite(std::span(row.logits).first(static_cast<size_t>(allowed))));
  if (row.pick == RowPick::kDistribution) {
    ExpectLargest(row, read, vocab, allowed);
    return;
  }
  std::vector<float> logits = row.logits;
  const SequenceSampling sampling = SamplingOf(row, vocab, allowed);
  const std::vector<TokenId> expected =
      row.pick == RowPick::kTop
          ? TopTokens(sampling.state(), allowed, row.path, logits, row.count)
          : RaceOrder(sampling, logits, row.path, row.count, row.seed, row.position);
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

constexpr RowPick kPicks[] = {RowPick::kDistribution, RowPick::kTop, RowPick::kRace};

TEST(DevicePicks, PicksWhatMasksLeave) {
  Random random(12);
  std::vector<TestRow> rows;
  for (int i = 0; i < 90; ++i) {
    rows.push_back(RandomRow(random, kPicks[i % 3], 300, 290));
    if (i % 4 != 0) AddMask(random, 290, &rows.back().params);
  }
  ExpectHosts(rows, 300, 290);
}

class DevicePicksOf : public ::testing::TestWithParam<RowPick> {};

TEST_P(DevicePicksOf, MatchTheHost) {
  Random random(40 + static_cast<uint64_t>(GetParam()));
  for (const auto& [vocab, allowed, count] : {std::tuple{1, 1, 10},
                                              {2, 2, 60},
                                              {7, 5, 120},
                                              {33, 33, 120},
                                              {257, 250, 80},
                                              {1500, 1499, 40},
                                              {4097, 4096, 8},
                                              {4100, 4097, 16},
                                              {8193, 8193, 40},
                                              {131071, 131000, 4}}) {
    std::vector<TestRow> rows;
    for (int i = 0; i < count; ++i) {
      rows.push_back(RandomRow(random, GetParam(), vocab, allowed));
    }
    ExpectHosts(rows, vocab, allowed);
    if (HasFatalFailure()) return;
  }
}

// Rows of several parts, with the entries that count in one or in all of them.
TEST_P(DevicePicksOf, FindEntriesInAnyPart) {
  constexpr int kVocab = 3 * kPartEntries + 50, kAllowed = 3 * kPartEntries + 1;
  Random random(47);
  std::vector<TestRow> rows;
  for (const int first : {0, kPartEntries - 40, kPartEntries, 2 * kPartEntries + 7,
                          3 * kPartEntries - 70, kAllowed - 80}) {
    for (int kind = 0; kind < 8; ++kind) {
      TestRow row{.pick = GetParam(), .seed = random.Bits(), .count = 1 + random.Below(6)};
      if (GetParam() == RowPick::kDistribution && kind % 2 == 0) row.count = kMostPickedByParts;
      row.logits = random.Logits(kVocab, false);
      for (int i = first; i < std::min(first + 80, kAllowed); ++i) {
        row.logits[static_cast<size_t>(i)] += 20.f;
      }
      if (kind == 2) row.params.top_k = 1 + random.Below(kPartCandidates - 1);
      if (kind == 3) row.params.top_p = 0.9f;
      if (kind == 4) row.params.min_p = 0.05f;
      if (kind == 5) row.params.top_k = 90, row.params.top_p = 0.8f, row.params.min_p = 0.01f;
      if (kind >= 6) row.params.temperature = kind == 6 ? 0.f : 0.3f;
      if (row.pick != RowPick::kDistribution) row.measure = static_cast<RowMeasure>(kind % 3);
      rows.push_back(row);
    }
  }
  ExpectHosts(rows, kVocab, kAllowed);
}

// Cuts that keep more entries of a part than are candidates: the whole row is read.
TEST_P(DevicePicksOf, CutsBeyondTheCandidates) {
  constexpr int kVocab = 2 * kPartEntries + 9;
  Random random(48);
  std::vector<TestRow> rows;
  for (const int likely : {kPartCandidates - 1, kPartCandidates, kPartCandidates + 1, 1000}) {
    for (int kind = 0; kind < 7; ++kind) {
      TestRow row{.pick = GetParam(), .seed = random.Bits(), .count = 4};
      row.logits.assign(kVocab, 0.f);
      for (int i = 0; i < likely; ++i) {
        row.logits[static_cast<size_t>(kPartEntries + 2 * i)] =
            20.f + (kind % 2 == 0 ? 0.f : static_cast<float>(random.Unit()));
      }
      if (kind < 2) row.params.top_k = kPartCandidates - 1 + kind;
      if (kind == 2) row.params.top_k = kPartCandidates - 1;
      if (kind == 3 || kind == 4) row.params.top_p = 0.99f;
      if (kind == 5) row.params.min_p = 0.2f;
      if (kind == 6) row.params.top_p = 0.7f, row.params.temperature = 5.f;
      if (row.pick != RowPick::kDistribution) row.measure = static_cast<RowMeasure>(kind % 3);
      rows.push_back(row);
    }
  }
  // Of 300 equal entries the first 180 are kept, of which the first part names 128.
  TestRow row{.pick = GetParam(), .count = 4};
  row.params.top_p = 0.6f;
  row.logits.assign(kVocab, 0.f);
  for (size_t i = kPartEntries - 200; i < kPartEntries + 100; ++i) row.logits[i] = 40.f;
  for (int i = 0; i < 10; ++i) {
    row.seed = random.Bits();
    rows.push_back(row);
  }
  ExpectHosts(rows, kVocab, kVocab);
}

// A distribution is written where its entries are picked: among candidates, if these suffice.
TEST(DevicePicks, LikelyCutsReadNoWholeRow) {
  constexpr int kVocab = 3 * kPartEntries;
  Random random(49);
  TestRow row{.count = 8, .logits = random.Logits(kVocab, false)};
  for (size_t i = 0; i < row.logits.size(); i += kPartEntries / 20) row.logits[i] += 15.f;
  for (const SamplingParams& params :
       std::vector<SamplingParams>{{}, {.top_k = 50}, {.top_p = 0.9f}, {.min_p = 0.01f}}) {
    row.params = params;
    std::vector<float> left;
    ReadOnDevice({row}, kVocab, kVocab, &left);
    EXPECT_EQ(left, row.logits) << params.top_k << " " << params.top_p << " " << params.min_p;
  }
  row.params = {.top_p = 0.99999f};
  row.logits.assign(kVocab, 0.f);
  std::vector<float> left;
  ReadOnDevice({row}, kVocab, kVocab, &left);
  EXPECT_NE(left, row.logits);
}

TEST(DevicePicks, PartsTakeTheirMemoryOnce) {
  const Stream stream;
  DevicePicks picks(&stream);
  std::vector<float> logits(size_t{kPartEntries} + 1, 1.f);
  const auto pick = [&](int rows) {
    PickBatch batch;
    batch.BeginSequence({});
    for (int i = 0; i < rows; ++i) {
      batch.AddRow({.pick = RowPick::kTop, .allowed = kPartEntries + 1}, {});
    }
    std::vector<float> all;
    for (int i = 0; i < rows; ++i) all.insert(all.end(), logits.begin(), logits.end());
    picks.Pick(batch, all.data(), kPartEntries + 1);
    EXPECT_EQ(picks.Picked().size(), static_cast<size_t>(rows));
  };
  pick(1);
  const int64_t before = cuda_emulation::Allocations();
  pick(2 * kRowsInParts);
  EXPECT_EQ(cuda_emulation::Allocations(), before);
}

// More than are read in parts at once.
TEST(DevicePicks, ManyRowsInParts) {
  Random random(53);
  std::vector<TestRow> rows;
  for (int i = 0; i < 2 * kRowsInParts + 3; ++i) {
    rows.push_back(RandomRow(random, kPicks[i % 3], kPartEntries + 300, kPartEntries + 290));
  }
  ExpectHosts(rows, kPartEntries + 300, kPartEntries + 290);
}

TEST_P(DevicePicksOf, EqualEntriesOfSeveralParts) {
  constexpr int kVocab = 2 * kPartEntries + 70;
  std::vector<TestRow> rows;
  for (const int count : {1, 2, 5, 40, kMostPickedByParts, kMostPickedByParts + 1}) {
    TestRow row{.pick = GetParam(), .count = count};
    row.logits.assign(kVocab, 0.f);
    rows.push_back(row);
    for (size_t i = kPartEntries - 100; i < row.logits.size(); i += 3) row.logits[i] = 1.f;
    rows.push_back(row);
    row.params.top_k = 50;
    rows.push_back(row);
  }
  ExpectHosts(rows, kVocab, kVocab);
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
          if (GetParam() != RowPick::kDistribution)
            row.measure = static_cast<RowMeasure>(count % 3);
          rows.push_back(row);
        }
      }
    }
  }
  ExpectHosts(rows, 4, 4);
  // The same at the ends of several parts.
  constexpr int kVocab = 2 * kPartEntries;
  std::vector<TestRow> longer;
  for (size_t i = 0; i < rows.size(); i += 5) {
    TestRow& row = longer.emplace_back(rows[i]);
    row.logits.assign(kVocab, -kInf);
    for (size_t k = 0; k < 4; ++k) row.logits[kPartEntries - 2 + k] = rows[i].logits[k];
  }
  // More infinities in a part than it has candidates.
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    TestRow& row = longer.emplace_back(TestRow{.pick = GetParam(), .seed = seed, .count = 3});
    row.logits.assign(kVocab, 0.f);
    std::fill_n(row.logits.begin() + kPartEntries + 100, 4 * kPartCandidates, kInf);
  }
  ExpectHosts(longer, kVocab, kVocab);
}

// At temperature 0 a distribution is a point mass, in which a race has a single winner.
TEST_P(DevicePicksOf, ColdRows) {
  Random random(44);
  std::vector<TestRow> rows;
  for (int i = 0; i < 60; ++i) {
    rows.push_back(RandomRow(random, GetParam(), 300, 290));
    rows.back().params.temperature = 0.f;
  }
  ExpectHosts(rows, 300, 290);
}

INSTANTIATE_TEST_SUITE_P(Picks, DevicePicksOf, ::testing::ValuesIn(kPicks), [](const auto& test) {
  switch (test.param) {
    case RowPick::kDistribution: return "Distribution";
    case RowPick::kTop: return "Top";
    case RowPick::kRace: return "Race";
  }
  return "";
});

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

TEST(DevicePicks, RaceOfWidestRow) {
  Random random(45);
  TestRow row{.pick = RowPick::kRace, .count = 3, .logits = random.Logits(kMaxVocabulary, true)};
  ExpectHosts({row}, kMaxVocabulary, kMaxVocabulary);
}

std::vector<std::pair<TokenId, float>> ByRisingId(const Read& read) {
  std::vector<std::pair<TokenId, float>> entries;
  for (const RowEntry& entry : read.entries) entries.emplace_back(entry.id, entry.value);
  std::sort(entries.begin(), entries.end());
  return entries;
}

class DevicePicksOfBatches : public ::testing::TestWithParam<int> {};

TEST_P(DevicePicksOfBatches, DoNotDependOnTheBatch) {
  const int vocab = GetParam(), allowed = vocab - 10;
  Random random(46);
  std::vector<TestRow> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(RandomRow(random, kPicks[i % 3], vocab, allowed));
  const std::vector<Read> together = ReadOnDevice(rows, vocab, allowed);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Read alone = ReadOnDevice({rows[i]}, vocab, allowed)[0];
    // Bit-identical, in any order.
    EXPECT_EQ(together[i].measure, alone.measure);
    ASSERT_EQ(together[i].entries.size(), alone.entries.size());
    if (rows[i].pick == RowPick::kDistribution) {
      EXPECT_EQ(ByRisingId(together[i]), ByRisingId(alone));
    } else {
      EXPECT_EQ(together[i].tokens(), alone.tokens());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, DevicePicksOfBatches, ::testing::Values(600, 9000),
                         ::testing::PrintToStringParamName());

TEST(DevicePicks, NothingOfNothing) {
  const Stream stream;
  DevicePicks picks(&stream);
  picks.Pick(PickBatch(), nullptr, 10);
  EXPECT_TRUE(picks.Picked().empty());
  EXPECT_EQ(picks.bytes(), 0u);
}

// A chain's first row, and the rows of all its depths.
struct TestChain {
  TestRow first;
  uint32_t round = 1, first_depth = 0;
  float mass = 1.f;
  std::vector<std::vector<float>> rows;
};

// Samples the chains on the device and on the host, both from the same row at each depth. `picks`
// may have been used before.
void ExpectHostsDraws(const std::vector<TestChain>& chains, int vocab, int allowed,
                      DevicePicks& picks) {
  const int depths = static_cast<int>(chains[0].rows.size());
  PickBatch batch;
  for (const TestChain& chain : chains) {
    const TestRow& row = chain.first;
    const SequenceSampling sampling = SamplingOf(row, vocab, allowed);
    batch.BeginSequence(sampling.state());
    batch.AddChain({.pick = row.pick,
                    .count = row.count,
                    .measure = row.measure,
                    .allowed = allowed,
                    .sampling = RowSamplingOf(row.params),
                    .seed = row.seed,
                    .position = row.position},
                   row.path, {depths, chain.round, chain.first_depth, chain.mass});
  }
  const auto width = static_cast<size_t>(vocab);
  auto memory = CudaBuffer::Allocate(MemoryKind::kDeviceOutsideGraphs,
                                     chains.size() * width * sizeof(float), nullptr);
  auto* const device = static_cast<float*>(memory.value()->data());
  std::vector<TokenId> drawn;  // by depth, then by chain
  picks.BeginChains(batch, device, vocab);
  for (size_t depth = 0; depth < static_cast<size_t>(depths); ++depth) {
    for (size_t i = 0; i < chains.size(); ++i) {
      std::copy_n(chains[i].rows[depth].begin(), width, device + i * width);
    }
    picks.SampleDepth(static_cast<int>(depth));
    drawn.insert(drawn.end(), picks.sampled(), picks.sampled() + chains.size());
  }
  picks.CopyBack();
  const std::span<const PickedRow> picked = picks.Picked();
  ASSERT_EQ(picked.size(), drawn.size());
  for (size_t i = 0; i < chains.size(); ++i) {
    const TestChain& chain = chains[i];
    TestRow row = chain.first;
    for (size_t depth = 0; depth < static_cast<size_t>(depths); ++depth) {
      SCOPED_TRACE("chain " + std::to_string(i) + " depth " + std::to_string(depth) + " pick " +
                   std::to_string(static_cast<int>(row.pick)));
      const size_t index = depth * chains.size() + i;
      const Read read = {{picked[index].entries.begin(), picked[index].entries.end()},
                         picked[index].measure,
                         picked[index].broken};
      row.logits = chain.rows[depth];
      row.position = chain.first.position + static_cast<uint32_t>(depth);
      ExpectHosts(row, read, vocab, allowed);
      if (::testing::Test::HasFatalFailure()) return;
      TokenId token = read.entries.empty() ? 0 : read.entries[0].id;
      if (row.pick == RowPick::kDistribution) {
        token = SampleDraftDistribution(
            MakeDraftDistribution(read.entries, {.mass = chain.mass, .max_entries = row.count}),
            Coin(row.seed, chain.round, chain.first_depth + static_cast<uint32_t>(depth),
                 Purpose::kDraftToken));
      }
      ASSERT_EQ(drawn[index], token);
      ASSERT_EQ(picked[index].sampled, token);
      row.path.push_back(token);
    }
  }
}

TestChain RandomChain(Random& random, RowPick pick, int vocab, int allowed, int depths) {
  TestChain chain{.first = RandomRow(random, pick, vocab, allowed),
                  .round = static_cast<uint32_t>(random.Below(1000)),
                  .first_depth = static_cast<uint32_t>(random.Below(10))};
  if (pick == RowPick::kDistribution) {
    const float masses[] = {1.f, 0.9995f, 0.7f, 0.01f};
    chain.mass = masses[random.Below(4)];
    if (random.Below(3) == 0) chain.first.count = 1 + random.Below(kMaxChainEntries);
  }
  for (int depth = 0; depth < depths; ++depth) {
    chain.rows.push_back(random.Logits(vocab, random.Below(2) == 0));
  }
  return chain;
}

// One object for batches that grow and shrink, alternating with batches that only pick.
TEST(DeviceChains, DrawWhatTheHostDraws) {
  Random random(50);
  const Stream stream;
  DevicePicks picks(&stream);
  for (const auto& [vocab, allowed, count, depths] : {std::tuple{1, 1, 3, 2},
                                                      {7, 5, 60, 5},
                                                      {33, 33, 90, 1},
                                                      {257, 250, 60, 7},
                                                      {1500, 1499, 40, 4},
                                                      {9001, 8999, 12, 3},
                                                      {40, 40, 2, 16}}) {
    std::vector<TestChain> chains;
    for (int i = 0; i < count; ++i) {
      chains.push_back(RandomChain(random, kPicks[random.Below(3)], vocab, allowed, depths));
    }
    SCOPED_TRACE("vocab " + std::to_string(vocab));
    ExpectHostsDraws(chains, vocab, allowed, picks);
    if (HasFatalFailure()) return;

    PickBatch batch;
    batch.BeginSequence({});
    batch.AddRow({.pick = RowPick::kTop, .allowed = 3}, {});
    float rows[] = {1.f, 3.f, 2.f};
    picks.Pick(batch, rows, 3);
    ASSERT_EQ(picks.Picked().size(), 1u);
    EXPECT_EQ(picks.Picked()[0].entries[0].id, 1);
    EXPECT_EQ(picks.Picked()[0].sampled, -1);
  }
}

// Entries that tie, in value or after rounding, and distributions that are cut between them.
TEST(DeviceChains, DistributionsOfEqualEntries) {
  Random random(51);
  const Stream stream;
  DevicePicks picks(&stream);
  std::vector<TestChain> chains;
  for (const int count : {1, 2, 3, 31, 32, 64, 70, 600, kMaxChainEntries}) {
    for (const float mass : {1.f, 0.9995f, 0.5f, 1e-6f}) {
      for (int kind = 0; kind < 4; ++kind) {
        TestChain chain{.first = {.seed = random.Bits(), .count = count}, .mass = mass};
        for (int depth = 0; depth < 3; ++depth) {
          std::vector<float> row(1200, 0.f);
          for (size_t i = 0; i < row.size() && kind > 0; ++i) {
            if (kind == 1) row[i] = i % 3 == 0 ? 1.f : 0.f;
            // Powers of two, so that their fractions are equal.
            if (kind == 2) row[i] = -static_cast<float>(i % 20) * std::log(2.f);
            // Far below a weight of 1 in 65536.
            if (kind == 3) row[i] = i % 100 == 7 ? 30.f : static_cast<float>(i % 9);
          }
          chain.rows.push_back(std::move(row));
        }
        chains.push_back(std::move(chain));
      }
    }
  }
  ExpectHostsDraws(chains, 1200, 1200, picks);
}

// An error of one unit of weight shows for random numbers next to the boundary of two entries.
TEST(DeviceChains, HandleCoinsAtEntryEdges) {
  std::vector<uint64_t> seed_of(kDraftWeightTotal,
                                0);  // by the unit into which its random number falls
  for (uint64_t seed = 1; seed < 20 * kDraftWeightTotal; ++seed) {
    const double coin = Coin(seed, /*round=*/1, /*row=*/0, Purpose::kDraftToken);
    seed_of[static_cast<size_t>(coin * kDraftWeightTotal)] = seed;
  }
  std::vector<TestChain> chains;
  for (const int n : {2, 3, 7, 13}) {
    for (const float step : {0.f, std::log(2.f), 0.9f}) {
      TestChain chain{.first = {.count = n}, .rows = {{}}};
      for (int i = 0; i < 13; ++i)
        chain.rows[0].push_back(
            -step *
            static_cast<float>(i / 2));  // NOLINT(bugprone-integer-division): pairs are equal
      chain.first.logits = chain.rows[0];
      const Read read = ReadOnDevice({chain.first}, 13, 13)[0];
      uint32_t reached = 0;
      for (const uint32_t weight :
           MakeDraftDistribution(read.entries, {.mass = 1.f, .max_entries = n}).weights) {
        for (const uint32_t unit : {reached, reached + weight - 1}) {
          chain.first.seed = seed_of[unit];
          ASSERT_NE(chain.first.seed, 0u);
          chains.push_back(chain);
        }
        reached += weight;
      }
    }
  }
  const Stream stream;
  DevicePicks picks(&stream);
  ExpectHostsDraws(chains, 13, 13, picks);
}

// Sampled tokens count for penalties like those of the output.
TEST(DeviceChains, PenaltiesCountTheDrawnTokens) {
  const Stream stream;
  DevicePicks picks(&stream);
  std::vector<TestChain> chains;
  for (const RowPick pick : kPicks) {
    TestChain chain{.first = {.pick = pick, .path = {4}, .count = 2}};
    chain.first.params.temperature = 0.01f;
    chain.first.params.presence_penalty = 2.f;
    chain.rows.assign(5, {5.f, 4.f, 3.f, 2.f, 6.f, 1.f});
    chains.push_back(chain);
  }
  ExpectHostsDraws(chains, 6, 6, picks);
  std::vector<TokenId> most_likely;
  for (size_t index = 1; index < 15; index += 3) {
    most_likely.push_back(picks.Picked()[index].sampled);
  }
  EXPECT_EQ(most_likely, (std::vector<TokenId>{0, 1, 4, 4, 4}));
}

// The memory of parts still holds what was found at the depth before.
TEST(DeviceChains, PartsForgetTheDepthBefore) {
  constexpr int kVocab = 2 * kPartEntries;
  Random random(52);
  const Stream stream;
  DevicePicks picks(&stream);
  std::vector<TestChain> chains;
  for (const RowPick pick : kPicks) {
    for (const float min_p : {0.f, 0.001f}) {
      TestChain chain{.first = {.pick = pick, .count = 6}};
      chain.first.params.min_p = min_p;
      chain.rows.push_back(random.Logits(kVocab, false));
      std::vector<float>& few = chain.rows.emplace_back(kVocab, -kInf);
      few[7] = 1.f, few[kPartEntries + 3] = 2.f;
      chains.push_back(chain);
    }
  }
  ExpectHostsDraws(chains, kVocab, kVocab, picks);
}

TEST(DeviceChains, BrokenRowsStillGiveTokens) {
  const Stream stream;
  DevicePicks picks(&stream);
  std::vector<TestChain> chains;
  for (const RowPick pick : kPicks) {
    for (const float temperature : {1.f, 0.f}) {
      TestChain chain{.first = {.pick = pick, .count = 3}};
      chain.first.params.temperature = temperature;
      chain.rows = {{-kInf, -kInf, -kInf, -kInf},
                    {kNan, kNan, kNan, kNan},
                    {kNan, 1.f, -kInf, 2.f},
                    {kInf, 1.f, kInf, kNan},
                    {-kInf, -kInf, 3.f, -kInf}};
      chains.push_back(chain);
    }
  }
  ExpectHostsDraws(chains, 4, 4, picks);
}

}  // namespace
}  // namespace outrider
