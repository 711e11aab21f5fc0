// Compares the entries that the device picks from rows for drafting with the host's.
#include "common/backend/cuda/device_picks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/math/coins.h"
#include "common/math/softmax.h"
#include "common/spec/draft_distribution.h"
#include "common/spec/sequence_sampling.h"
#include "tests/common/backend/cuda/random_params.h"
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
  std::vector<float> left;  // the row, as the device left it

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

std::vector<Read> ReadOnDevice(const std::vector<TestRow>& rows, int vocab, int allowed) {
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
  const float* next = device;
  for (const PickedRow& row : picks.Picked()) {
    all.push_back({{row.entries.begin(), row.entries.end()}, row.measure, {next, next + vocab}});
    next += vocab;
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

void ExpectHosts(const TestRow& row, const Read& read, int vocab, int allowed) {
  if (row.pick == RowPick::kDistribution) {
    // The row becomes the host's distribution; the entries are its largest ones, and the draft
    // distribution made from them is that of the whole row.
    std::vector<float> left = read.left;
    std::fill(left.begin() + allowed, left.end(), 0.f);
    if (!row.params.greedy()) {
      ExpectSameDistribution(HostDistribution(row, vocab, allowed), left, "row");
    } else {
      left = HostDistribution(row, vocab, allowed);
    }
    for (const float mass : {1.f, 0.9f}) {
      const DraftDistributionLimits limits{.mass = mass, .max_entries = row.count};
      const DraftDistribution expected = MakeDraftDistribution(left, limits);
      const DraftDistribution actual = MakeDraftDistribution(read.entries, limits);
      ASSERT_EQ(actual.ids, expected.ids);
      ASSERT_EQ(actual.weights, expected.weights);
    }
    ASSERT_EQ(read.entries.size(), TopEntries(left, row.count).size());
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
          if (GetParam() != RowPick::kDistribution)
            row.measure = static_cast<RowMeasure>(count % 3);
          rows.push_back(row);
        }
      }
    }
  }
  ExpectHosts(rows, 4, 4);
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

TEST(DevicePicks, DoNotDependOnTheBatch) {
  Random random(46);
  std::vector<TestRow> rows;
  for (int i = 0; i < 30; ++i) rows.push_back(RandomRow(random, kPicks[i % 3], 600, 590));
  const std::vector<Read> together = ReadOnDevice(rows, 600, 590);
  for (size_t i = 0; i < rows.size(); ++i) {
    const Read alone = ReadOnDevice({rows[i]}, 600, 590)[0];
    // Bit-identical, in any order.
    const DraftDistributionLimits limits{.mass = 1.f, .max_entries = 1 << 20};
    EXPECT_EQ(together[i].measure, alone.measure);
    ASSERT_EQ(together[i].entries.size(), alone.entries.size());
    if (rows[i].pick == RowPick::kDistribution) {
      EXPECT_EQ(MakeDraftDistribution(together[i].entries, limits).ids,
                MakeDraftDistribution(alone.entries, limits).ids);
      EXPECT_EQ(together[i].left, alone.left);
    } else {
      EXPECT_EQ(together[i].tokens(), alone.tokens());
    }
  }
}

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
  std::vector<std::vector<float>> left;  // by depth, then by chain
  std::vector<TokenId> drawn;            // likewise
  picks.BeginChains(batch, device, vocab);
  for (size_t depth = 0; depth < static_cast<size_t>(depths); ++depth) {
    for (size_t i = 0; i < chains.size(); ++i) {
      std::copy_n(chains[i].rows[depth].begin(), width, device + i * width);
    }
    picks.SampleDepth(static_cast<int>(depth));
    drawn.insert(drawn.end(), picks.sampled(), picks.sampled() + chains.size());
    for (size_t i = 0; i < chains.size(); ++i) {
      left.emplace_back(device + i * width, device + (i + 1) * width);
    }
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
                         left[index]};
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
                                                      {5001, 4999, 6, 3},
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
