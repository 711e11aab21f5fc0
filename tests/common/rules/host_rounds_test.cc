#include "common/rules/host_rounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "common/math/coins.h"
#include "common/spec/race.h"
#include "common/spec/sequence_sampling.h"
#include "tests/support/host_rules.h"
#include "tests/support/spectr_figures.h"

namespace outrider {
namespace {

using testing::VerifyMatch;

constexpr Rule kRules[] = {Rule::kToken, Rule::kBlock, Rule::kSpecTr, Rule::kMultiRound,
                           Rule::kMultiPathBlock};

using Rows = std::vector<std::vector<float>>;

// The target's rows by node.
TargetRowFn RowsOf(const Rows& rows) {
  return [&rows](int node) { return std::span<const float>(rows[static_cast<size_t>(node)]); };
}

Verdict VerifyRows(Rule rule, const DraftTree& tree, const Rows& rows, uint64_t seed,
                   uint32_t round) {
  const auto vocab = static_cast<int>(rows[0].size());
  return VerifyRound(rule, tree, RowsOf(rows), vocab, seed, round, 0);
}

bool Same(const Verdict& a, const Verdict& b) {
  return a.node == b.node && a.accepted == b.accepted && a.next == b.next;
}

DraftTree Chain(std::vector<TokenId> tokens, std::vector<DraftDistribution> distributions = {}) {
  return DraftTree::Chain(tokens, std::move(distributions));
}

// Two tokens; in every row the target has token 1 with certainty.
const Rows kSureOfOne(3, {0, 1});

TEST(VerifyRound, EmptyDraftIsOneTargetDraw) {
  for (const Rule rule : kRules) {
    int ones = 0;
    for (uint64_t seed = 0; seed < 1000; ++seed) {
      const Verdict verdict = VerifyRows(rule, DraftTree(), {{0.25f, 0.75f}}, seed, 3);
      EXPECT_EQ(verdict.node, DraftTree::kRoot);
      EXPECT_EQ(verdict.accepted, 0);
      EXPECT_EQ(verdict.next, Coin(seed, 3, 0, Purpose::kNextToken) < 0.25 ? 0 : 1);
      ones += verdict.next;
    }
    EXPECT_GT(ones, 600);
  }
}

TEST(VerifyRound, AcceptsDraftOfCertainTarget) {
  const DraftDistribution distribution{{0, 1}, {65535, 1}};
  for (const Rule rule : kRules) {
    const Verdict verdict =
        VerifyRows(rule, Chain({1, 1}, {distribution, distribution}), kSureOfOne, 1, 1);
    EXPECT_TRUE(Same(verdict, {.node = 2, .accepted = 2, .next = 1})) << RuleName(rule);
  }
}

TEST(VerifyRound, RejectsExcludedTokenAndFollowing) {
  const DraftDistribution distribution{{0, 1}, {32768, 32768}};
  for (const Rule rule : kRules) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Verdict verdict =
          VerifyRows(rule, Chain({0, 1}, {distribution, distribution}), kSureOfOne, seed, 1);
      EXPECT_TRUE(Same(verdict, {.node = 0, .accepted = 0, .next = 1})) << RuleName(rule);
    }
  }
}

TEST(VerifyRound, TakesNoDistributionForPointMasses) {
  const Rows rows = {{0.5f, 0.5f}, {0.75f, 0.25f}, {0.5f, 0.5f}};
  const TokenId tokens[] = {1, 0};
  const DraftTree bare = Chain({1, 0});
  const DraftTree spelled = Chain({1, 0}, {{{1}, {kDraftWeightTotal}}, {{0}, {kDraftWeightTotal}}});
  for (const Rule rule : kRules) {
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const Verdict verdict = VerifyRows(rule, bare, rows, seed, 0);
      EXPECT_TRUE(Same(verdict, VerifyRows(rule, spelled, rows, seed, 0))) << RuleName(rule);
      // The recovered token of a point mass is never the token that was just rejected.
      if (verdict.accepted < 2) {
        EXPECT_NE(verdict.next, tokens[verdict.accepted]) << RuleName(rule);
      }
    }
  }
}

TEST(VerifyRound, AcceptsEverythingIfDistributionsAgree) {
  const DraftDistribution distribution{{0, 1, 2}, {32768, 16384, 16384}};
  const Rows rows(4, {0.5f, 0.25f, 0.25f});
  for (const Rule rule : kRules) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Verdict verdict = VerifyRows(
          rule, Chain({0, 1, 2}, {distribution, distribution, distribution}), rows, seed, 0);
      EXPECT_EQ(verdict.accepted, 3) << RuleName(rule);
    }
  }
}

// A draft token cannot have been sampled from a distribution that does not contain it (the wire
// rejects such a draft), so the token is rejected.
TEST(VerifyRound, RejectsATokenOutsideItsDistribution) {
  const DraftDistribution distribution{{0}, {kDraftWeightTotal}};
  for (const Rule rule : kRules) {
    const Verdict verdict =
        VerifyRows(rule, Chain({1, 1}, {distribution, distribution}), kSureOfOne, 5, 0);
    EXPECT_TRUE(Same(verdict, {.node = 0, .accepted = 0, .next = 1})) << RuleName(rule);
  }
}

TEST(VerifyRound, DependsOnSeedAndRound) {
  const DraftDistribution distribution{{0, 1}, {49152, 16384}};
  const Rows rows = {{0.5f, 0.5f}, {0.25f, 0.75f}, {0.5f, 0.5f}};
  const DraftTree tree = Chain({0, 0}, {distribution, distribution});
  for (const Rule rule : kRules) {
    int differing = 0;
    for (uint32_t round = 0; round < 100; ++round) {
      const Verdict verdict = VerifyRows(rule, tree, rows, 4, round);
      EXPECT_TRUE(Same(verdict, VerifyRows(rule, tree, rows, 4, round)));
      differing += !Same(verdict, VerifyRows(rule, tree, rows, 4, round + 1));
    }
    EXPECT_GT(differing, 30) << RuleName(rule);
  }
}

// Two random numbers that are the same would make one decision: each draft token of a round has its
// own, keyed by seed, round, depth and purpose as in coins.h, and the token after them another one.
TEST(VerifyRound, EachDraftTokenHasItsCoin) {
  const Rows rows(4, {0.5f, 0.5f});
  const DraftTree tree =
      Chain({0, 0, 0});  // point masses: a token is accepted with probability 1/2
  for (uint32_t round = 0; round < 3; ++round) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      uint32_t accepted = 0;
      while (accepted < 3 && Coin(seed, round, accepted, Purpose::kAccept) < 0.5) ++accepted;
      const Verdict verdict = VerifyRound(Rule::kToken, tree, RowsOf(rows), 2, seed, round, 40);
      ASSERT_EQ(verdict.accepted, static_cast<int>(accepted)) << seed << " " << round;
      const double coin = Coin(seed, round, accepted, Purpose::kNextToken);
      EXPECT_EQ(verdict.next, accepted == 3 && coin < 0.5 ? 0 : 1);
    }
  }
}

// The target's rows are used exactly as they are sampled, to the last bit of their floats.
TEST(VerifyRound, UsesExactTargetRows) {
  const float third = 1.f / 3;
  const Rows rows(2, {third, 1 - third});
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    const Verdict drafted = VerifyRows(Rule::kToken, Chain({0}), rows, seed, 1);
    const double accept = Coin(seed, 1, 0, Purpose::kAccept);
    ASSERT_EQ(drafted.accepted, accept < static_cast<double>(third) ? 1 : 0) << seed;
    const double next = Coin(seed, 1, 0, Purpose::kNextToken);
    ASSERT_EQ(VerifyRows(Rule::kToken, DraftTree(), rows, seed, 1).next,
              next < static_cast<double>(third) ? 0 : 1);
  }
}

// A random tree of a shape over `vocab` tokens, with distributions of integer weights, and target
// rows for all of its nodes.
struct RandomRound {
  DraftTree tree;
  Rows rows;
};
RandomRound MakeRandomRound(const DraftShape& shape, int vocab, std::mt19937_64& rng) {
  std::uniform_real_distribution<float> uniform;
  const auto random_row = [&] {
    std::vector<float> row(static_cast<size_t>(vocab));
    float sum = 0;
    for (float& p : row) sum += p = uniform(rng) < 0.2f ? 0.f : uniform(rng) + 1e-3f;
    row[0] += 0.1f;
    for (float& p : row) p /= sum + 0.1f;
    return row;
  };
  RandomRound round;
  std::vector<int> times = {1};
  for (int node = 0; node <= round.tree.size(); ++node) {
    if (round.tree.depth(node) == shape.length) continue;
    const DraftDistribution distribution = MakeDraftDistribution(random_row(), {.mass = 0.95f});
    const int draws = times[static_cast<size_t>(node)] * shape.draws(round.tree.depth(node));
    for (int i = 0; i < draws; ++i) {
      const auto child = static_cast<size_t>(round.tree.AddDraw(
          node, SampleDraftDistribution(distribution, static_cast<double>(uniform(rng)) * 0.999)));
      times.resize(std::max(times.size(), child + 1));
      ++times[child];
    }
    round.tree.SetDistribution(node, distribution);
  }
  EXPECT_TRUE(Validate(round.tree, shape, true, vocab).ok());
  for (int node = 0; node <= round.tree.size(); ++node) round.rows.push_back(random_row());
  return round;
}

// With one sequence several rules are the same, for each random number.
TEST(VerifyRound, OneSequenceEqualsBlockVerification) {
  std::mt19937_64 rng(21);
  int accepted = 0;
  for (uint32_t i = 0; i < 2000; ++i) {
    const auto [tree, rows] = MakeRandomRound(Sequences(1, 1 + static_cast<int>(i % 5)), 9, rng);
    const Verdict block = VerifyRows(Rule::kBlock, tree, rows, i, 2);
    EXPECT_TRUE(Same(block, VerifyRows(Rule::kMultiPathBlock, tree, rows, i, 2))) << i;
    accepted += block.accepted;
  }
  EXPECT_GT(accepted, 1500);
}

TEST(VerifyRound, RejectionInTreeDrawsFromTarget) {
  std::mt19937_64 rng(22);
  const DraftShape shapes[] = {Sequences(3, 3), {.length = 3, .branching = {2, 2, 2}}};
  for (uint32_t i = 0; i < 1000; ++i) {
    const auto [tree, rows] = MakeRandomRound(shapes[i % 2], 6, rng);
    for (const Rule rule : kRules) {
      const Verdict verdict = VerifyRows(rule, tree, rows, i, 1);
      ASSERT_LE(verdict.node, tree.size());
      EXPECT_EQ(verdict.accepted, tree.depth(verdict.node));
      ASSERT_GE(verdict.next, 0);
      EXPECT_GT(rows[static_cast<size_t>(verdict.node)][static_cast<size_t>(verdict.next)], 0.f);
      for (int node = verdict.node; node != DraftTree::kRoot; node = tree.parent(node)) {
        const auto& row = rows[static_cast<size_t>(tree.parent(node))];
        EXPECT_GT(row[static_cast<size_t>(tree.token(node))], 0.f) << RuleName(rule);
      }
    }
  }
}

TEST(VerifyMatch, AcceptsWhileTokensEqualTheTargets) {
  const DraftTree tree = Chain({4, 5, 6});
  const auto verify = [&](std::vector<TokenId> own) {
    return VerifyMatch(tree, [&](int node) { return own[static_cast<size_t>(node)]; });
  };
  EXPECT_TRUE(Same(verify({4, 5, 6, 7}), {.node = 3, .accepted = 3, .next = 7}));
  EXPECT_TRUE(Same(verify({4, 9, 6, 7}), {.node = 1, .accepted = 1, .next = 9}));
  EXPECT_TRUE(Same(verify({1, 5, 6, 7}), {.node = 0, .accepted = 0, .next = 1}));
  EXPECT_EQ(VerifyMatch(DraftTree(), [](int) { return 3; }).next, 3);
}

TEST(VerifyMatch, FollowsTheBranchThatMatches) {
  DraftTree tree;
  tree.AddDraw(0, 4);
  tree.AddDraw(0, 5);
  tree.AddDraw(2, 6);
  tree.AddDraw(2, 7);
  const TokenId own[] = {5, 0, 7, 0, 9};  // by node
  const Verdict verdict = VerifyMatch(tree, [&](int node) { return own[node]; });
  EXPECT_TRUE(Same(verdict, {.node = 4, .accepted = 2, .next = 9}));
}

// One-hot rows must lead to the same decision with the sampling rules.
TEST(VerifyMatch, AgreesWithRulesOnPointMasses) {
  const DraftDistribution spread{{0, 1, 2}, {30000, 30000, 5536}};
  for (int code = 0; code < 81; ++code) {
    const DraftTree tree = Chain({code % 3, code / 3 % 3}, {spread, spread});
    const TokenId argmax[] = {code / 9 % 3, code / 27, 2};
    Rows rows(3, {0, 0, 0});
    for (size_t i = 0; i < 3; ++i) rows[i][static_cast<size_t>(argmax[i])] = 1.f;
    const Verdict want = VerifyMatch(tree, [&](int node) { return argmax[node]; });
    for (const Rule rule : kRules) {
      EXPECT_TRUE(Same(VerifyRows(rule, tree, rows, 8, 1), want)) << RuleName(rule);
    }
  }
}

TEST(VerifyRound, GumbelIsRaceAtEachPosition) {
  std::mt19937_64 rng(23);
  const auto [tree, rows] = MakeRandomRound({.length = 3, .branching = {3, 2}}, 4, rng);
  int accepted = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Verdict verdict =
        VerifyRound(Rule::kGumbel, tree, RowsOf(rows), 4, seed, 0, /*position=*/17);
    int node = DraftTree::kRoot;
    for (int depth = 0; depth <= verdict.accepted; ++depth) {
      const TokenId winner =
          RaceWinner(rows[static_cast<size_t>(node)], seed, 17 + static_cast<uint32_t>(depth));
      if (depth < verdict.accepted) {
        node = tree.Child(node, winner);
        ASSERT_GT(node, 0);
      } else {
        EXPECT_EQ(verdict.next, winner);
        EXPECT_EQ(tree.Child(node, winner), -1);
      }
    }
    EXPECT_EQ(verdict.node, node);
    accepted += verdict.accepted;
  }
  EXPECT_GT(accepted, 40);
}

TEST(AcceptanceOfFirstToken, HasThePublishedFigures) {
  const DraftDistribution distribution{{0, 1}, {49152, 16384}};
  for (const testing::BernoulliFigures& c : testing::kBernoulliFigures) {
    const std::vector<float> row = {static_cast<float>(1 - c.b), static_cast<float>(c.b)};
    DraftTree tree;
    tree.SetDistribution(DraftTree::kRoot, distribution);
    for (int i = 0; i < c.k; ++i) tree.AddDraw(DraftTree::kRoot, i % 2);
    const FirstTokenAcceptance got = AcceptanceOfFirstToken(tree, row);
    EXPECT_NEAR(got.kseq, c.kseq, 1e-6) << c.b << " " << c.k;
    EXPECT_NEAR(got.optimum, c.optimum, 1e-6) << c.b << " " << c.k;
  }
  const std::vector<float> row = {0.25f, 0.75f};
  EXPECT_EQ(AcceptanceOfFirstToken(DraftTree(), row).optimum, 0);
}

// Every array of the batch, and the offsets of its first round in them.
std::vector<std::string> ContentsOf(const RoundBatch& batch) {
  std::vector<std::string> contents;
  (void)batch.Copy([&contents]<class T>(const std::vector<T>& array) {
    if constexpr (!std::is_same_v<T, RoundHeader>) {
      contents.emplace_back(reinterpret_cast<const char*>(array.data()), array.size() * sizeof(T));
    }
    return array.data();
  });
  const RoundHeader& first = batch.round(0);
  for (const int64_t begin :
       {int64_t{first.first_node}, int64_t{first.first_seen}, int64_t{first.first_bias},
        int64_t{first.first_suppressed}, int64_t{first.first_mask}, int64_t{first.first_bad_word},
        int64_t{first.first_bad_token}, int64_t{first.first_recent}, first.scratch,
        batch.scratch_bytes()}) {
    contents.push_back(std::to_string(begin));
  }
  return contents;
}

TEST(RoundBatch, HoldsNothingOfBeforeAfterClear) {
  const std::vector<SeenToken> seen = {{.token = 1, .in_output = 2}};
  const std::vector<TokenBias> biases = {{.token = 2, .bias = 1.f}};
  const std::vector<TokenId> suppressed = {3};
  const std::vector<uint32_t> mask = {0xf};
  const std::vector<BadWord> bad_words = {{.first = 0, .size = 2}};
  const std::vector<TokenId> bad_tokens = {1, 2}, recent = {1};
  const SamplingState state = {.seen = seen,
                               .biases = biases,
                               .suppressed = suppressed,
                               .suppressed_rows = 1,
                               .mask = mask,
                               .bad_words = bad_words,
                               .bad_tokens = bad_tokens,
                               .recent = recent};
  const DraftDistribution halves{{1, 2}, {32768, 32768}};
  const DraftTree draft = Chain({1, 2}, {halves, halves});
  RoundBatch fresh;
  fresh.Add({.rule = Rule::kBlock}, draft, state);
  RoundBatch used;
  for (int i = 0; i < 3; ++i) used.Add({.rule = Rule::kBlock}, draft, state);
  used.Clear();
  EXPECT_TRUE(used.empty());
  EXPECT_EQ(used.nodes(), 0);
  used.Add({.rule = Rule::kBlock}, draft, state);
  EXPECT_EQ(ContentsOf(used), ContentsOf(fresh));
}

// Rounds over logits of 4 tokens, as called by an engine.
class HostRoundsTest : public ::testing::Test {
 protected:
  // `logits`: by node of the draft.
  void Add(const RoundSpec& spec, const DraftTree& draft, const SamplingState& sampling,
           const Rows& logits) {
    batch_.Add(spec, draft, sampling);
    for (const std::vector<float>& row : logits) {
      logits_.insert(logits_.end(), row.begin(), row.end());
    }
  }
  Decisions Decide() { return rounds_.Decide(batch_, {logits_.data(), kVocab, kVocab}); }

  static constexpr int kVocab = 4;
  static constexpr SamplingState kGreedy = {.sampling = {.temperature = 0.f}};
  const float nan_ = std::numeric_limits<float>::quiet_NaN();

  RoundBatch batch_;
  std::vector<float> logits_;
  HostRounds rounds_;
};

TEST_F(HostRoundsTest, NamesFirstBrokenRowOnPath) {
  DraftTree tree;  // 1 and 2 after the root, 3 after both
  const int one = tree.AddDraw(DraftTree::kRoot, 1);
  const int two = tree.AddDraw(DraftTree::kRoot, 2);
  tree.AddDraw(one, 3);
  tree.AddDraw(two, 3);
  const std::vector<float> likes_2 = {0, 0, 1, 0}, likes_3 = {0, 0, 0, 1};
  const std::vector<float> broken = {0, nan_, 0, 1};
  Add({}, tree, kGreedy, {likes_2, likes_3, likes_3, likes_3, likes_3});
  Add({}, tree, kGreedy, {likes_2, broken, likes_3, broken, likes_3});  // not on the path
  Add({}, tree, kGreedy, {likes_2, likes_3, broken, likes_3, broken});
  Add({}, tree, kGreedy, {likes_2, likes_3, likes_3, likes_3, broken});
  Add({.rule = Rule::kBlock}, Chain({2, 3}), {}, {{9, 9, 9, 9}, broken, {nan_, 0, 0, 0}});
  const Decisions decisions = Decide();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(decisions.rounds[i].verdict.node, 4) << i;
  EXPECT_EQ(decisions.rounds[0].broken_depth, -1);
  EXPECT_EQ(decisions.rounds[1].broken_depth, -1);
  EXPECT_EQ(decisions.rounds[2].broken_depth, 1);
  EXPECT_EQ(decisions.rounds[3].broken_depth, 2);
  const DecidedRound& sampled = decisions.rounds[4];
  EXPECT_EQ(sampled.broken_depth, sampled.verdict.accepted > 0 ? 1 : -1);
}

TEST_F(HostRoundsTest, ReportsAcceptanceOfReadRows) {
  const DraftDistribution even{{1, 2}, {32768, 32768}};
  const std::vector<float> never_1 = {0, -100, 0, 0}, flat(4, 0.f);
  const DraftTree draft = Chain({1, 2}, {even, even});
  Add({.rule = Rule::kToken, .wants_acceptance = true}, draft, {}, {never_1, flat, flat});
  Add({.rule = Rule::kToken}, draft, {}, {never_1, flat, flat});
  Add({.rule = Rule::kToken, .wants_acceptance = true}, draft, {},
      {{-100, 100, -100, -100}, flat, flat});
  const Decisions decisions = Decide();
  EXPECT_EQ(decisions.rounds[0].known_nodes, 1) << "rejected: the row after it was not read";
  EXPECT_EQ(decisions.acceptance[1], 0);
  EXPECT_EQ(decisions.rounds[1].known_nodes, 0) << "nobody asked";
  EXPECT_EQ(decisions.rounds[2].known_nodes, 2);
  EXPECT_EQ(decisions.acceptance[7], 255);
  EXPECT_EQ(decisions.acceptance[8], 128) << "1/4 of the target over 1/2 of the draft";
}

TEST_F(HostRoundsTest, SuppressesTokensInFirstRowsOnly) {
  const std::vector<TokenId> stops = {3};
  const SamplingState sampling = {
      .sampling = {.temperature = 0.f}, .suppressed = stops, .suppressed_rows = 2};
  const std::vector<float> likes_3 = {0, 0, 1, 2};
  Add({}, Chain({2, 2, 3}), sampling, Rows(4, likes_3));
  const Verdict verdict = Decide().rounds[0].verdict;
  EXPECT_EQ(verdict.accepted, 3) << "2 in the two rows without 3, then 3";
  EXPECT_EQ(verdict.next, 3);
}

// Of two rounds, the second has masks: its draft is rejected where a token is excluded.
TEST_F(HostRoundsTest, MasksApplyToTheirRound) {
  const std::vector<uint32_t> mask = {0b1101};
  const std::vector<BadWord> bad_words = {{.first = 0, .size = 2}, {.first = 2, .size = 3}};
  const std::vector<TokenId> bad_tokens = {3, 0, 2, 2, 3}, recent = {2};
  SamplingState masked = kGreedy;
  masked.mask = mask;
  masked.bad_words = bad_words;
  masked.bad_tokens = bad_tokens;
  masked.recent = recent;
  const std::vector<float> likes_1 = {0, 3, 2, 1}, likes_3 = {1, 0, 2, 3};
  Add({}, Chain({1, 3}), kGreedy, {likes_1, likes_3, likes_1});
  Add({}, Chain({2, 3}), masked, {likes_1, likes_3, likes_1});
  const Decisions decisions = Decide();
  EXPECT_EQ(decisions.rounds[0].verdict.accepted, 2);
  EXPECT_EQ(decisions.rounds[0].verdict.next, 1);
  EXPECT_EQ(decisions.rounds[1].verdict.accepted, 1)
      << "1 is not in the mask; 2, 2, 3 is a bad word";
  EXPECT_EQ(decisions.rounds[1].verdict.next, 2);
}

TEST_F(HostRoundsTest, DecidesEachRoundAsIfAlone) {
  std::mt19937_64 rng(71);
  std::vector<Verdict> alone;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto [tree, probabilities] = MakeRandomRound(
        {.length = static_cast<int>(seed % 4), .branching = {1 + static_cast<int>(seed % 3)}}, 4,
        rng);
    Rows logits = probabilities;
    for (std::vector<float>& row : logits) {
      for (float& x : row) x = std::log(x);
    }
    const Rule rule = tree.is_chain() ? Rule::kBlock : kRules[2 + seed % 3];
    Add({.rule = rule, .seed = seed, .round = 5}, tree, {}, logits);
    if (tree.empty()) {
      alone.push_back(
          {.next = SampleRow(probabilities[0], Coin(seed, 5, 0, Purpose::kPlainToken))});
    } else {
      alone.push_back(VerifyRows(rule, tree, probabilities, seed, 5));
    }
  }
  const Decisions decisions = Decide();
  ASSERT_EQ(decisions.rounds.size(), alone.size());
  int accepted = 0;
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_TRUE(Same(decisions.rounds[i].verdict, alone[i])) << i;
    accepted += alone[i].accepted;
  }
  EXPECT_GT(accepted, 20);
}

TEST_F(HostRoundsTest, MissingDistributionsMeanPointMasses) {
  batch_.Add({}, Chain({2, 1}), {});
  const RoundArrays arrays = batch_.arrays();
  const BatchedRound round(arrays, 0);
  EXPECT_EQ(round.draft(0).Of(2), 1);
  EXPECT_EQ(round.draft(1).Of(1), 1);
  EXPECT_EQ(round.draft(2).size, 0) << "nothing was drafted after the last token";
}

}  // namespace
}  // namespace outrider
