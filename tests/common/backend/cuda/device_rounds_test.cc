// Compares the rules on the device with VerifyRound, and the distribution of its output with the
// target's.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "common/math/accept.h"
#include "common/rules/host_rounds.h"
#include "common/spec/sequence_sampling.h"
#include "tests/common/backend/cuda/device_round.h"
#include "tests/support/extreme_floats.h"
#include "tests/support/sequence_rows.h"
#include "tests/support/statistics.h"

namespace outrider {
namespace {

using testing::kInf;

// The rules whose draft tokens are sampled from distributions that travel with them.
const std::vector<Rule>& SamplingRules() {
  static const auto* const kRules = [] {
    auto* const rules = new std::vector<Rule>;
    for (const RuleTraits& traits : kRuleTraits) {
      if (DraftKindOf(traits.rule, false) == DraftKind::kSampled) rules->push_back(traits.rule);
    }
    return rules;
  }();
  return *kRules;
}

// The same ones in turn.
Rule SamplingRule(int i) {
  return SamplingRules()[static_cast<size_t>(i) % SamplingRules().size()];
}

struct Mismatches {
  int on_same_rows = 0;  // the host's rules on the rows that the device made
  int on_host_rows = 0;  // the whole verification on the host
  int cases = 0;
};

Mismatches Compare(std::vector<TestRound> sessions, int vocab, int allowed) {
  const std::vector<TestRound> before = sessions;
  const std::vector<DecidedRound> verdicts = DecideOnDevice(sessions, vocab, allowed);
  Mismatches result;
  for (size_t i = 0; i < before.size(); ++i) {
    const TestRound& s = before[i];
    ++result.cases;
    result.on_same_rows += !Same(OnHost(s, sessions[i].rows, vocab), verdicts[i]);
    Rows rows = s.rows;
    SequenceSampling sampling(s.params, vocab, allowed);
    for (int node = 0; node <= s.tree.size(); ++node) {
      MakeDistribution(sampling, rows[static_cast<size_t>(node)], s.tree.Path(node));
    }
    result.on_host_rows += !Same(OnHost(s, rows, vocab), verdicts[i]);
  }
  return result;
}

// Rows near the draft distributions, so that some drafts are accepted; the target excludes some
// tokens.
void MakeRows(Random& random, int vocab, TestRound& s) {
  for (int node = 0; node <= s.tree.size(); ++node) {
    std::vector<float> row = random.Logits(vocab, false);
    for (float& x : row) x *= 0.4f;
    const DraftDistribution& distribution = s.tree.distribution(node);
    for (size_t i = 0; i < distribution.ids.size(); ++i) {
      row[static_cast<size_t>(distribution.ids[i])] +=
          std::log(static_cast<float>(distribution.weights[i]) / 65536.f) + 6.f;
      if (random.Below(20) == 0) row[static_cast<size_t>(distribution.ids[i])] = -kInf;
    }
    s.rows.push_back(std::move(row));
  }
}

TestRound RandomSession(Random& random, Rule rule, int vocab, int allowed, int max_length) {
  TestRound s;
  s.rule = rule;
  s.seed = random.Bits();
  s.round = static_cast<uint32_t>(random.Below(1 << 20));
  s.params.temperature = random.Below(2) == 0 ? 1.f : 0.7f;
  if (random.Below(4) == 0) s.params.top_k = 1 + random.Below(20);
  if (random.Below(4) == 0) s.params.top_p = 0.9f;
  DraftShape shape{.length = random.Below(max_length + 1)};
  if (TakesManyPaths(rule)) {
    while (shape.branching.size() < static_cast<size_t>(std::min(shape.length, 2))) {
      shape.branching.push_back(1 + random.Below(4));
    }
  }
  s.tree = random.Tree(shape, allowed, 1 + random.Below(70));
  if (random.Below(20) == 0 && !TakesManyPaths(rule)) {  // point masses
    DraftTree bare;
    int node = 0;
    for (int i = 0; i < shape.length; ++i) node = bare.AddDraw(node, random.Below(allowed));
    s.tree = bare;
  }
  MakeRows(random, vocab, s);
  return s;
}

TEST(DeviceRounds, GiveTheHostsVerdicts) {
  Random random(11);
  for (const Rule rule : SamplingRules()) {
    Mismatches all;
    for (const auto& [vocab, allowed, count] : {std::tuple{4, 4, 400},
                                                {40, 37, 400},
                                                {250, 250, 300},
                                                {900, 890, 60},
                                                {5000, 5000, 20}}) {
      std::vector<TestRound> sessions;
      for (int i = 0; i < count; ++i) {
        sessions.push_back(RandomSession(random, rule, vocab, allowed, 5));
      }
      const Mismatches some = Compare(std::move(sessions), vocab, allowed);
      all.on_same_rows += some.on_same_rows;
      all.on_host_rows += some.on_host_rows;
      all.cases += some.cases;
    }
    // Of 10^3 cases with at most ten random numbers, one is within 1e-6 of its threshold on the
    // host's rows with probability at most 1e-2; on the same rows only the host's summation by
    // tiles differs.
    EXPECT_EQ(all.on_same_rows, 0) << RuleName(rule) << " of " << all.cases;
    EXPECT_LE(all.on_host_rows, 1) << RuleName(rule) << " of " << all.cases;
  }
}

TEST(DeviceRounds, MatchHostForLargeVocabularies) {
  Random random(12);
  std::vector<TestRound> sessions;
  for (const Rule rule : SamplingRules())
    sessions.push_back(RandomSession(random, rule, 131072, 131000, 3));
  sessions.push_back(RandomSession(random, Rule::kBlock, 131072, 131000, 0));
  const Mismatches some = Compare(std::move(sessions), 131072, 131000);
  EXPECT_EQ(some.on_same_rows, 0);
  EXPECT_EQ(some.on_host_rows, 0);
}

TEST(DeviceRounds, VerdictsAreIndependentOfBatch) {
  Random random(13);
  std::vector<TestRound> sessions;
  for (int i = 0; i < 40; ++i) {
    sessions.push_back(RandomSession(random, SamplingRule(i), 600, 600, 4));
  }
  std::vector<TestRound> together = sessions;
  const std::vector<DecidedRound> verdicts = DecideOnDevice(together, 600, 600);
  for (size_t i = 0; i < sessions.size(); ++i) {
    std::vector<TestRound> alone = {sessions[i]};
    const Verdict verdict = DecideOnDevice(alone, 600, 600)[0].verdict;
    EXPECT_TRUE(verdict.node == verdicts[i].verdict.node &&
                verdict.next == verdicts[i].verdict.next)
        << i;
    EXPECT_EQ(alone[0].rows, together[i].rows) << i;  // bit-identical
  }
}

// What the engine reads from target rows besides the verdict.
TEST(DeviceRounds, ReportAcceptanceProbabilities) {
  Random random(15);
  std::vector<TestRound> sessions;
  for (int i = 0; i < 100; ++i) {
    sessions.push_back(RandomSession(random, SamplingRule(i), 60, 60, 4));
    if (i % 10 == 9) sessions.back().rule = Rule::kGumbel;
    if (i % 10 == 8) sessions.back().params.temperature = 0;
  }
  std::vector<std::vector<uint8_t>> acceptance;
  const std::vector<DecidedRound> verdicts = DecideOnDevice(sessions, 60, 60, &acceptance);
  int several = 0, drafted = 0;
  for (size_t i = 0; i < sessions.size(); ++i) {
    const TestRound& s = sessions[i];
    const bool sampled = DraftKindOf(s.rule, s.params.greedy()) == DraftKind::kSampled;
    ASSERT_EQ(acceptance[i].size(), static_cast<size_t>(s.tree.size()) + 1);
    EXPECT_EQ(acceptance[i][0], 0);
    for (int node = 1; node <= s.tree.size(); ++node) {
      const DraftDistribution& distribution = s.tree.distribution(s.tree.parent(node));
      const double q = distribution.ids.empty() ? 1 : Probability(distribution, s.tree.token(node));
      const double p = static_cast<double>(s.rows[static_cast<size_t>(s.tree.parent(node))]
                                                 [static_cast<size_t>(s.tree.token(node))]);
      EXPECT_EQ(acceptance[i][static_cast<size_t>(node)], sampled ? AcceptanceByte(p, q) : 0);
      drafted += sampled;
    }
    FirstTokenAcceptance first;
    if (sampled && s.tree.draws(0).size() > 1) {
      first = AcceptanceOfFirstToken(s.tree, s.rows[0]);
      ++several;
    }
    EXPECT_EQ(verdicts[i].first_token.kseq, first.kseq) << i;
    EXPECT_EQ(verdicts[i].first_token.optimum, first.optimum) << i;
  }
  EXPECT_GT(several, 10);
  EXPECT_GT(drafted, 100);
}

TEST(DeviceRounds, DegenerateRounds) {
  const DraftDistribution even{{0, 1}, {32768, 32768}}, sure{{0}, {kDraftWeightTotal}};
  std::vector<TestRound> sessions;
  for (const Rule rule : SamplingRules()) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      TestRound s{.rule = rule, .seed = seed};
      // Both models agree: the residual distribution after a rejection is zero.
      s.tree = DraftTree::Chain(std::vector<TokenId>{0, 1}, {even, even});
      s.rows = {{0.f, 0.f, -kInf}, {0.f, 0.f, -kInf}, {0.f, -kInf, -kInf}};
      sessions.push_back(s);
      // The same after a token with draft probability 0: it is rejected, and the residual is zero.
      s.tree = DraftTree::Chain(std::vector<TokenId>{2, 0}, {even, even});
      sessions.push_back(s);
      // The target excludes the draft's token.
      s.tree = DraftTree::Chain(std::vector<TokenId>{0, 1}, {even, even});
      s.rows[0] = {-kInf, 0.f, 0.f};
      sessions.push_back(s);
      // A token outside its own distribution, a distribution of one token, a broken row.
      s.tree = DraftTree::Chain(std::vector<TokenId>{2, 0}, {even, sure});
      sessions.push_back(s);
      s.tree = DraftTree::Chain(std::vector<TokenId>{0, 0}, {sure, sure});
      s.rows[1] = {-kInf, -kInf, -kInf};
      sessions.push_back(s);
      if (!TakesManyPaths(rule)) continue;
      s.tree = DraftTree();  // one token sampled four times, then another
      s.tree.SetDistribution(0, even);
      for (const TokenId token : {0, 0, 1, 0, 0}) s.tree.AddDraw(0, token);
      s.tree.SetDistribution(1, even);
      for (const TokenId token : {1, 1, 1, 0}) s.tree.AddDraw(1, token);
      s.rows.assign(5, {0.f, 0.5f, 0.25f});
      sessions.push_back(s);
    }
  }
  const Mismatches some = Compare(sessions, 3, 3);
  EXPECT_EQ(some.on_same_rows, 0);
  EXPECT_EQ(some.on_host_rows, 0);
}

// Two tokens after an empty text: the output of a round, continued by the test's own plain
// sampling.
TEST(DeviceRounds, EmitTheTargetDistribution) {
  constexpr int kVocab = 3, kRounds = 6000;
  const std::vector<double> root = {0.5, 0.2, 0.3};
  const std::vector<std::vector<double>> after = {{0.1, 0.6, 0.3}, {0.7, 0.3, 0}, {0.4, 0.2, 0.4}};
  const DraftDistribution draft_root{{0, 1, 2}, {20000, 25536, 20000}};
  const DraftDistribution draft_after{{1, 0, 2}, {40000, 20000, 5536}};
  std::vector<double> distribution;
  for (size_t a = 0; a < kVocab; ++a) {
    for (size_t b = 0; b < kVocab; ++b) distribution.push_back(root[a] * after[a][b]);
  }
  const auto logits = [](const std::vector<double>& row) {
    std::vector<float> out;
    for (const double p : row) out.push_back(p > 0 ? static_cast<float>(std::log(p)) : -kInf);
    return out;
  };
  for (const auto& [rule, name, takes_many_paths] : kRuleTraits) {
    Random random(20 + static_cast<uint64_t>(rule));
    std::vector<int64_t> counts(distribution.size());
    std::vector<TestRound> sessions;
    for (int i = 0; i < kRounds; ++i) {
      TestRound s{.rule = rule, .seed = random.Bits(), .round = static_cast<uint32_t>(i)};
      const bool distributions = DraftKindOf(rule, false) == DraftKind::kSampled;
      const int draws = distributions && takes_many_paths ? 3 : 1;
      if (distributions) s.tree.SetDistribution(0, draft_root);
      for (int k = 0; k < draws; ++k) {
        s.tree.AddDraw(0, SampleDraftDistribution(draft_root, random.Unit()));
      }
      const int first = s.tree.size();
      for (int node = 1; node <= first; ++node) {
        const auto siblings = s.tree.draws(0);
        const auto times = std::count(siblings.begin(), siblings.end(), node);
        if (distributions) s.tree.SetDistribution(node, draft_after);
        for (int k = 0; k < times; ++k) {
          s.tree.AddDraw(node, SampleDraftDistribution(draft_after, random.Unit()));
        }
      }
      for (int node = 0; node <= s.tree.size(); ++node) {
        s.rows.push_back(logits(node == 0 ? root : after[static_cast<size_t>(s.tree.token(node))]));
      }
      sessions.push_back(std::move(s));
    }
    const std::vector<DecidedRound> verdicts = DecideOnDevice(sessions, kVocab, kVocab);
    for (size_t i = 0; i < sessions.size(); ++i) {
      std::vector<TokenId> text = sessions[i].tree.Path(verdicts[i].verdict.node);
      text.push_back(verdicts[i].verdict.next);
      if (text.size() < 2) {
        const std::vector<double>& row = after[static_cast<size_t>(text[0])];
        const double coin = random.Unit();
        text.push_back(coin < row[0] ? 0 : coin < row[0] + row[1] ? 1 : 2);
      }
      ++counts[static_cast<size_t>(text[0] * kVocab + text[1])];
    }
    EXPECT_GT(testing::ChiSquarePValue(counts, distribution), testing::kFalseAlarm) << name;
  }
}

}  // namespace
}  // namespace outrider
