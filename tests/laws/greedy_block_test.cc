// Greedy block verification (Sun et al. 2025, Appendix C): lossless over several rounds with the
// carried modification of the target, and not without it; also the derived figures of both toys.
#include "common/rules/greedy_block.h"

#include <gtest/gtest.h>

#include "tests/laws/tolerance.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// A generation's state between rounds.
struct State {
  Tokens context;
  GreedyCarry carry;

  friend bool operator<(const State& a, const State& b) {
    if (a.context != b.context) return a.context < b.context;
    const auto key = [](const GreedyCarry::Level& l) { return std::pair(l.ratio, l.left); };
    return std::lexicographical_compare(
        a.carry.levels.begin(), a.carry.levels.end(), b.carry.levels.begin(), b.carry.levels.end(),
        [&](const auto& x, const auto& y) { return key(x) < key(y); });
  }
};
using States = std::map<State, double>;

// Calls visit(context and carry afterwards, emitted tokens, probability) for each way in which a
// round of `length` draft tokens can go.
template <class Visit>
void ForEachRound(const EnumeratedPair& pair, const State& before, int length, Visit visit) {
  Enumeration enumeration;
  do {
    EnumeratedRound round(pair, before.context, Sequences(1, length), &enumeration);
    EnumeratingCoins coins(&enumeration, /*branch_next=*/true);
    State after = before;
    const Verdict verdict = VerifyGreedyBlock(round, after.carry, coins);
    const Tokens path = round.tree().Path(verdict.node);
    after.context.insert(after.context.end(), path.begin(), path.end());
    after.context.push_back(verdict.next);
    visit(after, verdict.accepted + 1, enumeration.probability());
  } while (enumeration.Advance());
}

// The law of `total` tokens made by rounds of `length` draft tokens, as many as it takes.
Law CarriedLaw(const EnumeratedPair& pair, int length, size_t total) {
  Contexts done;
  States states = {{{}, 1.0}};
  while (!states.empty()) {
    States after;
    for (const auto& [state, mass] : states) {
      ForEachRound(pair, state, length, [&, mass = mass](State next, int, double probability) {
        if (next.context.size() < total) {
          after[next] += mass * probability;
        } else {
          next.context.resize(total);
          done[next.context] += mass * probability;
        }
      });
    }
    states = std::move(after);
  }
  return CompletedLaw(pair, done, total);
}

// The rule without its carry.
Verdict VerifyForgetful(EnumeratedRound& round, EnumeratingCoins& coins) {
  GreedyCarry carry;
  return VerifyGreedyBlock(round, carry, coins);
}

// E[tokens] of rounds 1, 2, .. of a pair whose rows do not depend on the context.
std::vector<double> TokensByRound(const EnumeratedPair& pair, int length, int rounds) {
  std::vector<double> means;
  States states = {{{}, 1.0}};
  for (int i = 0; i < rounds; ++i) {
    States after;
    double tokens = 0;
    for (const auto& [state, mass] : states) {
      ForEachRound(pair, state, length,
                   [&, mass = mass](State next, int emitted, double probability) {
                     tokens += emitted * mass * probability;
                     next.context.clear();
                     after[next] += mass * probability;
                   });
    }
    means.push_back(tokens);
    states = std::move(after);
  }
  return means;
}

size_t DeepestCarry(const EnumeratedPair& pair, int length, int rounds) {
  size_t deepest = 0;
  States states = {{{}, 1.0}};
  for (int i = 0; i < rounds; ++i) {
    States after;
    for (const auto& [state, mass] : states) {
      ForEachRound(pair, state, length, [&, mass = mass](State next, int, double probability) {
        deepest = std::max(deepest, next.carry.levels.size());
        next.context.clear();
        after[next] += mass * probability;
      });
    }
    states = std::move(after);
  }
  return deepest;
}

TEST(GreedyBlock, OfTheTwoTokenToyHasTheDerivedMeansOverRounds) {
  const auto total = [](int g, int rounds) {
    const std::vector<double> means = TokensByRound(TwoTokens(), g, rounds);
    return std::accumulate(means.begin(), means.end(), 0.0);
  };
  EXPECT_NEAR(total(2, 1), 7. / 3, kTolerance);
  EXPECT_NEAR(total(2, 2), 40. / 9, kTolerance);
  EXPECT_NEAR(total(2, 3), 59. / 9, kTolerance);
  EXPECT_NEAR(total(2, 5), 59. / 9 + 2 * 19. / 9, kTolerance);
  EXPECT_NEAR(total(3, 1), 77. / 27, kTolerance);
  EXPECT_NEAR(total(3, 2), 437. / 81, kTolerance);
  EXPECT_NEAR(total(3, 3), 635. / 81, kTolerance);
  EXPECT_NEAR(total(4, 1), 91. / 27, kTolerance);
  EXPECT_NEAR(total(4, 2), 13402. / 2187, kTolerance);
  EXPECT_NEAR(total(4, 3), 519677. / 59049, kTolerance);
}

TEST(GreedyBlock, SettlesAtTheDerivedRates) {
  EXPECT_NEAR(TokensByRound(TwoTokens(), 3, 10).back(), 2.447188, 1e-5);
  EXPECT_NEAR(TokensByRound(TwoTokens(), 4, 7).back(), 2.6465, 2e-3);
}

TEST(GreedyBlock, OfTheToysAcceptsTheDerivedNumberOfTokensInOneRound) {
  const Emitter rule = EmitterOfCode(VerifyForgetful);
  const Law two = AcceptedLaw(rule, TwoTokens(), Sequences(1, 2));
  EXPECT_NEAR(two[0], 1. / 3, kTolerance);
  EXPECT_NEAR(two[1], 0, kTolerance);
  EXPECT_NEAR(two[2], 2. / 3, kTolerance);
  const double means[] = {0.666667, 1.333333, 1.851852, 2.370370, 2.790123, 3.209877, 3.556470};
  for (int g = 1; g <= 7; ++g) {
    EXPECT_NEAR(Mean(AcceptedLaw(rule, TwoTokens(), Sequences(1, g))), means[g - 1], 6e-7) << g;
  }
  const Law four = AcceptedLaw(rule, FourTokens(), Sequences(1, 3));
  const double want[] = {1. / 4, 3. / 16, 6409. / 57600, 25991. / 57600};
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(four[i], want[i], kTolerance) << i;
  const auto mean = [&](int g) { return Mean(AcceptedLaw(rule, FourTokens(), Sequences(1, g))); };
  EXPECT_NEAR(mean(2), 21. / 16, kTolerance);
  EXPECT_NEAR(mean(3), 101591. / 57600, kTolerance);
  EXPECT_NEAR(mean(4), 38399. / 18000, kTolerance);
}

// sum over prefixes of min(target, draft): the bound of any coupling (Lemmas 9 and 10).
TEST(GreedyBlock, AcceptsTheMostThatOneRoundCan) {
  const Emitter rule = EmitterOfCode(VerifyForgetful);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const double zeros = seed % 2 == 0 ? 0 : 0.3;
    const EnumeratedPair pair{3, RandomModel(3, seed, zeros), RandomModel(3, ~seed, zeros)};
    double bound = 0;
    for (size_t l = 1; l <= 3; ++l) {
      const Law target = TargetLaw(pair, l), draft = TargetLaw({3, pair.draft, nullptr}, l);
      for (size_t x = 0; x < target.size(); ++x) bound += std::min(target[x], draft[x]);
    }
    EXPECT_NEAR(Mean(AcceptedLaw(rule, pair, Sequences(1, 3))), bound, kTolerance) << seed;
    EXPECT_GE(bound, Mean(AcceptedLaw(Rule::kBlock, pair, Sequences(1, 3))) - kTolerance) << seed;
  }
}

TEST(GreedyBlock, WithItsCarryIsLossless) {
  for (const auto& [pair, g, total] : {std::tuple(TwoTokens(), 2, 7),
                                       {TwoTokens(), 3, 8},
                                       {FourTokens(), 2, 5},
                                       {FourTokens(), 3, 5}}) {
    const auto tokens = static_cast<size_t>(total);
    EXPECT_LE(TotalVariation(CarriedLaw(pair, g, tokens), TargetLaw(pair, tokens)), kTolerance)
        << pair.vocab << " " << g;
  }
}

TEST(GreedyBlock, WithItsCarryIsLosslessForRandomPairs) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const double target_zeros = seed % 4 < 2 ? 0 : 0.4, draft_zeros = seed % 2 == 0 ? 0 : 0.4;
    const EnumeratedPair two{2, RandomModel(2, seed, target_zeros),
                             RandomModel(2, ~seed, draft_zeros)};
    EXPECT_LE(TotalVariation(CarriedLaw(two, 3, 8), TargetLaw(two, 8)), kTolerance) << seed;
    EXPECT_LE(TotalVariation(CarriedLaw(two, 4, 7), TargetLaw(two, 7)), kTolerance) << seed;
    const EnumeratedPair three{3, RandomModel(3, seed + 50, target_zeros),
                               RandomModel(3, ~(seed + 50), draft_zeros)};
    EXPECT_LE(TotalVariation(CarriedLaw(three, 2, 6), TargetLaw(three, 6)), kTolerance) << seed;
    EXPECT_LE(TotalVariation(CarriedLaw(three, 3, 5), TargetLaw(three, 5)), kTolerance) << seed;
  }
}

// What the tests above would miss if no level ever nested.
TEST(GreedyBlock, NestsItsLevels) {
  EXPECT_EQ(DeepestCarry(TwoTokens(), 2, 3), 1u);
  EXPECT_EQ(DeepestCarry(TwoTokens(), 3, 3), 2u);
  EXPECT_EQ(DeepestCarry(TwoTokens(), 4, 4), 3u);
}

TEST(GreedyBlock, WithoutItsCarryIsNotLossless) {
  const Emitter rule = EmitterOfCode(VerifyForgetful);
  const DraftShape two = Sequences(1, 2), three = Sequences(1, 3);
  const Law law = GenerationLaw(rule, TwoTokens(), std::span(&two, 1), 2);
  EXPECT_NEAR(law[2], 1. / 3, kTolerance);  // BA, in place of 2/9
  EXPECT_NEAR(MaxError(GenerationLaw(rule, FourTokens(), std::span(&three, 1), 4),
                       TargetLaw(FourTokens(), 4)),
              7. / 480, kTolerance);
}

}  // namespace
}  // namespace outrider::testing
