// Losslessness, exactly: Lemma 2 of Sun et al. 2025 says that a rule is lossless if and only if
// (X^tau, Y), completed by the target, has the target's law. Drafts are enumerated, coins are
// integrated out through the production rules in double, every cell is compared.
#include <gtest/gtest.h>

#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// Sums of a few thousand products of doubles, each off by 1e-16.
constexpr double kTolerance = 1e-12;
constexpr Rule kRules[] = {Rule::kToken, Rule::kBlock};

struct Case {
  ToyPair pair;
  std::string name;
};

// Random pairs of each size, zeros included: in the target, in the draft, in both.
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

void ExpectLossless(const ToyPair& pair, std::span<const int> rounds, size_t total,
                    const std::string& name, const StopRule& stop = nullptr) {
  const Law want = TargetLaw(pair, total);
  for (const Rule rule : kRules) {
    EXPECT_LE(MaxError(GenerationLaw(rule, pair, rounds, total, stop), want), kTolerance)
        << name << ", rule " << RuleName(rule);
  }
}

TEST(ExactLaw, OfOneRoundIsTheTargets) {
  for (int vocab = 2; vocab <= 5; ++vocab) {
    for (const Case& c : RandomPairs(vocab, 8)) {
      for (int g = 0; g <= (vocab <= 3 ? 4 : 3); ++g) {
        const int rounds[] = {g};
        ExpectLossless(c.pair, rounds, static_cast<size_t>(g) + 1, c.name);
      }
    }
  }
}

TEST(ExactLaw, OfOneRoundOfFourTokensOfFiveIsTheTargets) {
  const int rounds[] = {4};
  ExpectLossless(RandomPairs(5, 4)[3].pair, rounds, 5, "vocab 5");
  ExpectLossless(RandomPairs(4, 4)[3].pair, rounds, 5, "vocab 4");
}

// No state survives a round: what follows is as good as new.
TEST(ExactLaw, OfTwoRoundsIsTheTargets) {
  for (int vocab = 2; vocab <= 3; ++vocab) {
    for (const Case& c : RandomPairs(vocab, 8)) {
      for (const auto& rounds : {std::vector<int>{2, 2}, {3, 1}, {1, 3}, {0, 2}}) {
        ExpectLossless(c.pair, rounds, 5, c.name);
      }
    }
  }
}

TEST(ExactLaw, OfADrafterThatIsTheTargetIsTheTargets) {
  const Model model = RandomModel(4, 77, 0.3);
  const ToyPair pair{4, model, model};
  const int rounds[] = {3};
  ExpectLossless(pair, rounds, 4, "equal models");
  for (const Rule rule : kRules) {
    EXPECT_NEAR(AcceptedLaw(rule, pair, 3)[3], 1, kTolerance);
  }
}

TEST(ExactLaw, OfADrafterThatIsNeverRightIsTheTargets) {
  const Law target = {0, 0.5, 0, 0.5}, draft = {0.75, 0, 0.25, 0};
  const ToyPair pair{4, Chain(std::vector<Law>(5, target)), Chain(std::vector<Law>(5, draft))};
  const int rounds[] = {2, 1};
  ExpectLossless(pair, rounds, 4, "disjoint supports");
  for (const Rule rule : kRules) {
    EXPECT_EQ(AcceptedLaw(rule, pair, 2)[0], 1);
  }
}

Model PointMasses(int vocab, int step) {
  return [=](std::span<const TokenId> context) {
    Law row(static_cast<size_t>(vocab), 0.0);
    const int last = context.empty() ? 0 : context.back();
    row[static_cast<size_t>((last + step) % vocab)] = 1;
    return row;
  };
}

TEST(ExactLaw, OfPointMassesIsTheTargets) {
  const int rounds[] = {3};
  const ToyPair greedy_draft{3, RandomModel(3, 5, 0.2), PointMasses(3, 1)};
  ExpectLossless(greedy_draft, rounds, 4, "greedy draft");
  // A draft without spread: block verification has token verification's law.
  const Law token = AcceptedLaw(Rule::kToken, greedy_draft, 3);
  const Law block = AcceptedLaw(Rule::kBlock, greedy_draft, 3);
  EXPECT_LE(MaxError(token, block), kTolerance);
  ExpectLossless({3, PointMasses(3, 1), RandomModel(3, 6, 0.2)}, rounds, 4, "greedy target");
  ExpectLossless({3, PointMasses(3, 1), PointMasses(3, 1)}, rounds, 4, "both greedy, equal");
  ExpectLossless({3, PointMasses(3, 1), PointMasses(3, 2)}, rounds, 4, "both greedy, unequal");
}

// A drafter may stop behind a token that it keeps; the shorter block's last position is a leaf.
TEST(ExactLaw, OfBlocksThatEndEarlyIsTheTargets) {
  const StopRule on_one = [](std::span<const TokenId> draft) { return draft.back() == 1; };
  const int rounds[] = {3, 2};
  for (const Case& c : RandomPairs(3, 8)) ExpectLossless(c.pair, rounds, 5, c.name, on_one);
}

TEST(BlockVerification, AcceptsAtLeastAsManyAsTokenVerification) {
  double gain = 0;
  for (int vocab = 2; vocab <= 4; ++vocab) {
    for (const Case& c : RandomPairs(vocab, 12)) {
      for (int g = 1; g <= 3; ++g) {
        const double token = Mean(AcceptedLaw(Rule::kToken, c.pair, g));
        const double block = Mean(AcceptedLaw(Rule::kBlock, c.pair, g));
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
