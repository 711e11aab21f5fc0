// Exact losslessness: draft tokens are enumerated, random numbers are integrated out through the
// production rules in double, and the distribution of the first tokens is compared with the
// target's.
#include <gtest/gtest.h>

#include <string>

#include "tests/exactness/tolerance.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// The sums have some thousand products of doubles, each with an error of 1e-16.
constexpr Rule kOnePath[] = {Rule::kToken, Rule::kBlock};
constexpr Rule kManyPaths[] = {Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock};
constexpr Rule kEach[] = {Rule::kToken, Rule::kBlock, Rule::kSpecTr, Rule::kMultiRound,
                          Rule::kMultiPathBlock};

struct Case {
  EnumeratedPair pair;
  std::string name;
};

// Random pairs of each size, with zeros in the target, in the draft, and in both.
std::vector<Case> RandomPairs(int vocab, int count) {
  std::vector<Case> cases;
  for (int i = 0; i < count; ++i) {
    const auto seed = static_cast<uint64_t>(1000 * vocab + i);
    const double zeros[][2] = {{0, 0}, {0.4, 0}, {0, 0.4}, {0.4, 0.4}};
    const auto& z = zeros[i % 4];
    cases.push_back({{vocab, RandomModel(vocab, seed, z[0]), RandomModel(vocab, ~seed, z[1])},
                     "vocab " + std::to_string(vocab) + " pair " + std::to_string(i)});
  }
  return cases;
}

std::string Name(std::span<const DraftShape> rounds) {
  std::string name;
  for (const DraftShape& shape : rounds) {
    name += ", length " + std::to_string(shape.length) + " branching";
    for (const int k : shape.branching) name += " " + std::to_string(k);
  }
  return name;
}

void ExpectLossless(std::span<const Rule> rules, const Case& c,
                    const std::vector<DraftShape>& rounds, size_t total,
                    const StopFn& stop = nullptr) {
  const OutputDistribution want = TargetDistribution(c.pair, total);
  for (const Rule rule : rules) {
    const OutputDistribution got =
        GenerationDistribution(EmitterOf(rule, stop), c.pair, rounds, total);
    EXPECT_LE(TotalVariation(got, want), kTolerance)
        << RuleName(rule) << ", " << c.name << Name(rounds);
  }
}

// One round of `shape`: all its tokens and the one after them.
void ExpectLossless(std::span<const Rule> rules, int vocab, int pairs, const DraftShape& shape) {
  for (const Case& c : RandomPairs(vocab, pairs)) {
    ExpectLossless(rules, c, {shape}, static_cast<size_t>(shape.length) + 1);
  }
}

TEST(ExactDistribution, HoldsForOneSequence) {
  for (int vocab = 2; vocab <= 5; ++vocab) {
    for (int g = 0; g <= (vocab <= 3 ? 4 : 3); ++g) {
      ExpectLossless(kEach, vocab, 8, Sequences(1, g));
    }
  }
}

TEST(ExactDistribution, HoldsForFourTokensOfFive) {
  ExpectLossless(kOnePath, RandomPairs(5, 4)[3], {Sequences(1, 4)}, 5);
  ExpectLossless(kEach, RandomPairs(4, 4)[3], {Sequences(1, 4)}, 5);
}

TEST(ExactDistribution, HoldsForSeveralTokens) {
  for (int vocab = 2; vocab <= 5; ++vocab) {
    for (int k = 2; k <= 4; ++k) ExpectLossless(kManyPaths, vocab, 8, Sequences(k, 1));
  }
}

TEST(ExactDistribution, HoldsForSeveralSequences) {
  ExpectLossless(kManyPaths, 2, 8, Sequences(2, 4));
  ExpectLossless(kManyPaths, 2, 8, Sequences(3, 3));
  ExpectLossless(kManyPaths, 2, 8, Sequences(4, 4));
  ExpectLossless(kManyPaths, 3, 8, Sequences(2, 3));
  ExpectLossless(kManyPaths, 3, 8, Sequences(3, 2));
  ExpectLossless(kManyPaths, 3, 4, Sequences(4, 2));
  ExpectLossless(kManyPaths, 3, 4, Sequences(2, 4));
  ExpectLossless(kManyPaths, 4, 8, Sequences(2, 2));
  ExpectLossless(kManyPaths, 4, 4, Sequences(3, 2));
  ExpectLossless(kManyPaths, 5, 8, Sequences(2, 2));
}

TEST(ExactDistribution, HoldsForPrefixTrees) {
  ExpectLossless(kManyPaths, 2, 8, {.length = 2, .branching = {2, 2}});
  ExpectLossless(kManyPaths, 2, 8, {.length = 2, .branching = {1, 3}});
  ExpectLossless(kManyPaths, 2, 8, {.length = 3, .branching = {2, 1, 2}});
  ExpectLossless(kManyPaths, 2, 4, {.length = 4, .branching = {1, 2, 1, 2}});
  ExpectLossless(kManyPaths, 3, 8, {.length = 2, .branching = {2, 2}});
  ExpectLossless(kManyPaths, 3, 4, {.length = 3, .branching = {2, 1, 2}});
  ExpectLossless(kManyPaths, 3, 8, {.length = 2, .branching = {1, 3}});
  ExpectLossless(kManyPaths, 4, 4, {.length = 2, .branching = {1, 3}});
}

// At each node these rules use only the first token, which is distributed like any other.
TEST(ExactDistribution, OnePathRulesHoldOnTrees) {
  ExpectLossless(kOnePath, 2, 4, {.length = 3, .branching = {2, 1, 2}});
  ExpectLossless(kOnePath, 3, 4, Sequences(3, 2));
}

// No state survives a round, so the next one is lossless whatever its shape.
TEST(ExactDistribution, HoldsOverTwoRounds) {
  const DraftShape tree = {.length = 2, .branching = {1, 2}};
  for (const Case& c : RandomPairs(2, 8)) {
    ExpectLossless(kEach, c, {Sequences(2, 2), Sequences(3, 1)}, 5);
    ExpectLossless(kManyPaths, c, {Sequences(3, 1), tree}, 4);
    ExpectLossless(kManyPaths, c, {tree, Sequences(2, 2)}, 5);
    ExpectLossless(kManyPaths, c, {Sequences(2, 1), Sequences(0, 0), Sequences(2, 2)}, 5);
  }
  for (const Case& c : RandomPairs(3, 8)) {
    ExpectLossless(kEach, c, {Sequences(1, 2), Sequences(2, 1)}, 4);
  }
  for (int vocab = 2; vocab <= 3; ++vocab) {
    for (const Case& c : RandomPairs(vocab, 8)) {
      for (const auto& lengths : {std::vector<int>{2, 2}, {3, 1}, {1, 3}, {0, 2}}) {
        const std::vector<DraftShape> rounds = {Sequences(1, lengths[0]), Sequences(1, lengths[1])};
        ExpectLossless(kOnePath, c, rounds, 5);
      }
    }
  }
}

// Paths end after a token sampled from a row that makes the rule stop; some trees are ragged.
TEST(ExactDistribution, HoldsUnderStopRules) {
  for (int vocab = 2; vocab <= 3; ++vocab) {
    for (const Case& c : RandomPairs(vocab, 8)) {
      const StopFn unsure = [&c](std::span<const TokenId> draft) {
        const OutputDistribution row = c.pair.draft(draft.first(draft.size() - 1));
        return *std::max_element(row.begin(), row.end()) < 0.6;
      };
      ExpectLossless(kEach, c, {Sequences(1, 4)}, 5, unsure);
      ExpectLossless(kManyPaths, c, {Sequences(2, 3)}, 4, unsure);
      if (vocab == 2) ExpectLossless(kManyPaths, c, {{3, {2, 1, 2}}}, 4, unsure);
    }
  }
}

// A drafter may stop after a token that it keeps; the last position of the shorter path is a leaf.
TEST(ExactDistribution, HoldsForDraftsThatEndEarly) {
  const StopFn on_one = [](std::span<const TokenId> draft) { return draft.back() == 1; };
  for (const Case& c : RandomPairs(3, 8)) {
    ExpectLossless(kOnePath, c, {Sequences(1, 3), Sequences(1, 2)}, 5, on_one);
    ExpectLossless(kManyPaths, c, {Sequences(2, 2)}, 3, on_one);
    ExpectLossless(kManyPaths, c, {Sequences(3, 2)}, 3, on_one);
  }
  for (const Case& c : RandomPairs(2, 8)) {
    ExpectLossless(kManyPaths, c, {Sequences(3, 3)}, 4, on_one);
    ExpectLossless(kManyPaths, c, {{.length = 3, .branching = {2, 1, 2}}, Sequences(2, 2)}, 5,
                   on_one);
  }
}

TEST(ExactDistribution, HoldsForDrafterEqualToTarget) {
  const Model model = RandomModel(4, 77, 0.3);
  const Case c{{4, model, model}, "equal models"};
  ExpectLossless(kEach, c, {Sequences(1, 3)}, 4);
  ExpectLossless(kManyPaths, c, {Sequences(2, 2)}, 3);
  for (const Rule rule : kEach) {
    EXPECT_NEAR(AcceptedDistribution(rule, c.pair, Sequences(1, 3))[3], 1, kTolerance)
        << RuleName(rule);
  }
  for (const Rule rule : {Rule::kSpecTr, Rule::kMultiRound}) {
    EXPECT_NEAR(AcceptedDistribution(rule, c.pair, Sequences(2, 2))[2], 1, kTolerance)
        << RuleName(rule);
  }
}

TEST(ExactDistribution, HoldsForDisjointDrafter) {
  const OutputDistribution target = {0, 0.5, 0, 0.5}, draft = {0.75, 0, 0.25, 0};
  const Case c{{4, Chain(std::vector<OutputDistribution>(5, target)),
                Chain(std::vector<OutputDistribution>(5, draft))},
               "disjoint supports"};
  for (const int k : {1, 2, 3}) {
    ExpectLossless(kEach, c, {Sequences(k, 2), Sequences(k, 1)}, 4);
    for (const Rule rule : kEach) {
      EXPECT_EQ(AcceptedDistribution(rule, c.pair, Sequences(k, 2))[0], 1) << RuleName(rule);
    }
  }
}

Model PointMasses(int vocab, int step) {
  return [=](std::span<const TokenId> context) {
    OutputDistribution row(static_cast<size_t>(vocab), 0.0);
    const int last = context.empty() ? 0 : context.back();
    row[static_cast<size_t>((last + step) % vocab)] = 1;
    return row;
  };
}

TEST(ExactDistribution, HoldsForPointMasses) {
  const Case greedy_draft{{3, RandomModel(3, 5, 0.2), PointMasses(3, 1)}, "greedy draft"};
  // For a point-mass draft, block verification has token verification's distribution.
  EXPECT_LE(TotalVariation(AcceptedDistribution(Rule::kToken, greedy_draft.pair, Sequences(1, 3)),
                           AcceptedDistribution(Rule::kBlock, greedy_draft.pair, Sequences(1, 3))),
            kTolerance);
  for (const int k : {1, 3}) {
    ExpectLossless(kEach, greedy_draft, {Sequences(k, 3)}, 4);
    ExpectLossless(kEach, {{3, PointMasses(3, 1), RandomModel(3, 6, 0.2)}, "greedy target"},
                   {Sequences(k, 2)}, 3);
    ExpectLossless(kEach, {{3, PointMasses(3, 1), PointMasses(3, 1)}, "both greedy, equal"},
                   {Sequences(k, 3)}, 4);
    ExpectLossless(kEach, {{3, PointMasses(3, 1), PointMasses(3, 2)}, "both greedy, unequal"},
                   {Sequences(k, 3)}, 4);
  }
}

// Among tokens with equal ratios p / q the choice depends on their ids, not on the draft's order.
TEST(ExactDistribution, HoldsForEqualRatios) {
  const OutputDistribution target = {0.3, 0.15, 0.55}, draft = {0.2, 0.1, 0.7};
  const OutputDistribution other_target = {0.5, 0.3, 0.2}, other_draft = {0.3, 0.42, 0.28};
  const Case c{{3, Chain({target, other_target, target, other_target}),
                Chain({draft, other_draft, draft, other_draft})},
               "equal ratios"};
  for (int k = 2; k <= 3; ++k) ExpectLossless(kManyPaths, c, {Sequences(k, 2)}, 3);
}

TEST(BlockVerification, AcceptsNoFewerThanTokenVerification) {
  double gain = 0;
  for (int vocab = 2; vocab <= 4; ++vocab) {
    for (const Case& c : RandomPairs(vocab, 12)) {
      for (int g = 1; g <= 3; ++g) {
        const double token = Mean(AcceptedDistribution(Rule::kToken, c.pair, Sequences(1, g)));
        const double block = Mean(AcceptedDistribution(Rule::kBlock, c.pair, Sequences(1, g)));
        if (g == 1) {
          EXPECT_NEAR(block, token, kTolerance) << c.name;
        }
        EXPECT_GE(block, token - kTolerance) << c.name;
        gain += block - token;
      }
    }
  }
  EXPECT_GT(gain, 0.1);
}

}  // namespace
}  // namespace outrider::testing
