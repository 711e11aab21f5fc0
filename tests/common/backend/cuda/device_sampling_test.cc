// Compares the kernel that turns rows into distributions with the host.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "common/spec/race.h"
#include "common/spec/sequence_sampling.h"
#include "tests/common/backend/cuda/device_round.h"
#include "tests/common/backend/cuda/random_params.h"
#include "tests/support/extreme_floats.h"
#include "tests/support/sequence_rows.h"

namespace outrider {
namespace {

using testing::kInf;

SequenceSampling SamplingOf(const TestRound& s, int vocab, int allowed) {
  SequenceSampling sampling(s.params, vocab, allowed);
  sampling.ObservePrompt(s.prompt);
  for (const TokenId token : s.output) sampling.ObserveOutput(token);
  return sampling;
}

// Applies the sampling parameters to every row on both sides.
void ExpectSameDistributions(std::vector<TestRound> sessions, int vocab, int allowed) {
  const std::vector<TestRound> before = sessions;
  DecideOnDevice(sessions, vocab, allowed);
  for (size_t s = 0; s < sessions.size(); ++s) {
    SequenceSampling sampling = SamplingOf(before[s], vocab, allowed);
    for (int node = 0; node <= before[s].tree.size(); ++node) {
      std::vector<float> row = before[s].rows[static_cast<size_t>(node)];
      MakeDistribution(sampling, row, before[s].tree.Path(node));
      ExpectSameDistribution(row, sessions[s].rows[static_cast<size_t>(node)],
                             "vocab " + std::to_string(vocab) + " session " + std::to_string(s) +
                                 " node " + std::to_string(node));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TestRound RandomSession(Random& random, int vocab, int allowed, const DraftShape& shape) {
  TestRound s;
  s.params = RandomParams(random, allowed);
  for (int i = random.Below(20); i > 0; --i) s.prompt.push_back(random.Below(allowed));
  for (int i = random.Below(20); i > 0; --i) s.output.push_back(random.Below(vocab));
  s.tree = random.Tree(shape, allowed, 8);
  s.seed = random.Bits();
  s.round = static_cast<uint32_t>(random.Below(1000));
  const bool grid = random.Below(2) == 0;
  for (int node = 0; node <= s.tree.size(); ++node) s.rows.push_back(random.Logits(vocab, grid));
  return s;
}

TEST(DeviceSampling, GivesTheHostsDistribution) {
  Random random(1);
  for (const auto& [vocab, allowed] :
       {std::pair{1, 1}, {2, 2}, {7, 5}, {33, 33}, {256, 250}, {300, 300}, {1500, 1499}}) {
    std::vector<TestRound> sessions;
    for (int i = 0; i < 60; ++i) {
      sessions.push_back(RandomSession(random, vocab, allowed, {.length = 3, .branching = {2}}));
    }
    ExpectSameDistributions(std::move(sessions), vocab, allowed);
    if (HasFatalFailure()) return;
  }
}

// Bad words of which a part is in the output, in the draft, or in both.
TEST(DeviceSampling, MasksTokensAndBadWords) {
  Random random(8);
  for (const auto& [vocab, allowed] : {std::pair{12, 11}, {300, 290}}) {
    std::vector<TestRound> sessions;
    for (int i = 0; i < 60; ++i) {
      TestRound s = RandomSession(random, vocab, allowed, {.length = 3, .branching = {2}});
      if (i % 3 != 0) AddMask(random, allowed, &s.params);
      std::vector<std::vector<TokenId>> words(s.params.bad_words.begin(), s.params.bad_words.end());
      std::vector<TokenId> text = s.output;
      const std::vector<TokenId> path = s.tree.Path(s.tree.size());
      text.insert(text.end(), path.begin(), path.end());
      for (size_t size = 1; size < text.size() && size <= 4; ++size) {
        const size_t end =
            size + static_cast<size_t>(random.Below(static_cast<int>(text.size() - size + 1)));
        std::vector<TokenId> word(text.begin() + static_cast<std::ptrdiff_t>(end - size),
                                  text.begin() + static_cast<std::ptrdiff_t>(end));
        word.push_back(random.Below(allowed));
        words.push_back(std::move(word));
      }
      s.params.bad_words = std::move(words);
      sessions.push_back(std::move(s));
    }
    ExpectSameDistributions(std::move(sessions), vocab, allowed);
    if (HasFatalFailure()) return;
  }
}

TEST(DeviceSampling, HoldsForLargeVocabularies) {
  Random random(2);
  for (const int vocab : {32768, 262144}) {
    std::vector<TestRound> sessions;
    for (int i = 0; i < 4; ++i) {
      sessions.push_back(RandomSession(random, vocab, vocab - 3, {.length = 1}));
    }
    sessions[0].params.top_k = 50;
    sessions[0].params.top_p = 0.9f;
    sessions[1].params.top_p = 0.95f;
    ExpectSameDistributions(std::move(sessions), vocab, vocab - 3);
    if (HasFatalFailure()) return;
  }
}

TEST(DeviceSampling, TiesGoToTheLowerId) {
  for (const int vocab : {10, 700}) {
    std::vector<TestRound> sessions;
    for (const auto& [top_k, top_p] :
         {std::pair{3, 1.f}, {0, 0.35f}, {5, 0.5f}, {vocab - 1, 0.999f}, {0, 0.9999f}}) {
      TestRound s;
      s.params.top_k = top_k;
      s.params.top_p = top_p;
      s.rows = {std::vector<float>(static_cast<size_t>(vocab), 2.f)};
      sessions.push_back(s);
      s.rows[0][static_cast<size_t>(vocab) / 2] = 4.f;
      s.rows[0][1] = -kInf;
      sessions.push_back(s);
    }
    ExpectSameDistributions(sessions, vocab, vocab);
  }
}

TEST(DeviceSampling, BrokenRowsStayRows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<TestRound> sessions;
  for (const std::vector<float>& row : std::vector<std::vector<float>>{{-kInf, -kInf, -kInf, -kInf},
                                                                       {nan, nan, nan, nan},
                                                                       {nan, 1.f, -kInf, 2.f},
                                                                       {kInf, 1.f, kInf, nan},
                                                                       {-0.f, 0.f, -kInf, -200.f},
                                                                       {3e38f, -3e38f, 0.f, 1.f}}) {
    for (const float top_p : {1.f, 0.4f}) {
      for (const float temperature : {1.f, 1e-39f, 1e30f}) {
        TestRound s;
        s.params.top_p = top_p;
        s.params.temperature = temperature;
        s.rows = {row};
        sessions.push_back(s);
        s.params.top_k = 1;
        sessions.push_back(s);
        s.params.top_k = 0;
        s.params.min_p = 0.5f;
        sessions.push_back(s);
      }
    }
  }
  ExpectSameDistributions(sessions, 4, 4);
}

// Greedy and Gumbel: the tokens along the accepted path.
TEST(DeviceSampling, MatchesTheHostsArgmaxAndRace) {
  Random random(3);
  for (const auto& [vocab, allowed, count] :
       {std::tuple{5, 4, 200}, {300, 300, 200}, {3000, 2990, 30}, {262144, 262100, 3}}) {
    std::vector<TestRound> sessions;
    for (int i = 0; i < count; ++i) {
      TestRound s = RandomSession(random, vocab, allowed, {});
      s.rule = Rule::kGumbel;
      if (i % 2 == 0) s.params.temperature = 0.f;
      if (i % 4 == 1) s.params.top_k = 0, s.params.top_p = 1.f, s.params.min_p = 0.f;
      if (i % 8 == 1) s.rows[0].assign(s.rows[0].size(), i % 16 == 1 ? -kInf : kInf);
      if (allowed == 4) {  // drafts that are sometimes right
        const int a = s.tree.AddDraw(0, random.Below(4));
        s.tree.AddDraw(0, random.Below(4));
        s.tree.AddDraw(a, random.Below(4));
        while (s.rows.size() <= static_cast<size_t>(s.tree.size())) {
          s.rows.push_back(random.Logits(vocab, true));
        }
      }
      sessions.push_back(s);
    }
    std::vector<TestRound> after = sessions;
    const std::vector<DecidedRound> verdicts = DecideOnDevice(after, vocab, allowed);
    for (size_t i = 0; i < sessions.size(); ++i) {
      const TestRound& s = sessions[i];
      SequenceSampling sampling = SamplingOf(s, vocab, allowed);
      int node = 0;
      for (;;) {
        std::vector<float> row = s.rows[static_cast<size_t>(node)];
        const auto position = s.position() + static_cast<uint32_t>(s.tree.depth(node));
        const TokenId next =
            s.params.greedy() ? MostLikely(sampling, row, s.tree.Path(node))
                              : RaceOrder(sampling, row, s.tree.Path(node), 1, s.seed, position)[0];
        const int child = s.tree.Child(node, next);
        if (child < 0) {
          ASSERT_EQ(verdicts[i].verdict.next, next) << vocab << " session " << i;
          break;
        }
        node = child;
      }
      ASSERT_EQ(verdicts[i].verdict.node, node);
      ASSERT_EQ(verdicts[i].verdict.accepted, s.tree.depth(node));
    }
  }
}

}  // namespace
}  // namespace outrider
