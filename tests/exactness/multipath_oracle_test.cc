// Multi-path block verification: its choice of a path has the stated distribution, and its
// acceptance equals the figures from exact enumeration.
#include <gtest/gtest.h>

#include <array>

#include "common/spec/sequence_sampling.h"
#include "tests/exactness/tolerance.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// The distribution of the token chosen from k draft tokens, by enumeration; `share` is lambda.
OutputDistribution ChosenDistribution(const EnumeratedPair& pair, int k, const PathChoice& choice,
                                      double share) {
  OutputDistribution distribution(static_cast<size_t>(pair.vocab), 0.0);
  PathChoice at_share = choice;
  at_share.kseq_share = share;
  Enumeration enumeration;
  do {
    EnumeratedRound round(pair, {}, Sequences(k, 1), &enumeration);
    EnumeratingCoins coins(&enumeration);
    round.draws(DraftTree::kRoot);
    const std::vector<RatioEntry> entries = RankEntries(round.target(0), round.draft(0));
    const int node = ChooseDraw(round, DraftTree::kRoot, at_share, entries, coins);
    distribution[static_cast<size_t>(round.token(node))] += enumeration.probability();
  } while (enumeration.Advance());
  return distribution;
}

void ExpectEntries(const std::vector<RatioEntry>& entries, const std::vector<double>& distribution,
                   const OutputDistribution& want, uint64_t seed) {
  double sum = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_NEAR(distribution[i], want[static_cast<size_t>(entries[i].id)], kTolerance) << seed;
    sum += distribution[i];
  }
  EXPECT_NEAR(sum, 1, kTolerance) << seed;
}

TEST(PathChoice, HasTheDistributionsThatItStates) {
  int mixed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const int vocab = 2 + static_cast<int>(seed % 4), k = 1 + static_cast<int>(seed / 4 % 4);
    const double zeros = seed % 3 == 0 ? 0.4 : 0;
    const OutputDistribution p = RandomRow(vocab, 2 * seed, zeros),
                             q = RandomRow(vocab, 2 * seed + 1, zeros);
    const EnumeratedPair pair{vocab, [&](std::span<const TokenId>) { return p; },
                              [&](std::span<const TokenId>) { return q; }};
    std::vector<TokenId> ids(q.size());
    std::iota(ids.begin(), ids.end(), 0);
    const std::vector<RatioEntry> entries =
        RankEntries(p.data(), SparseRow<double>{ids.data(), q.data(), vocab, 1});
    const auto n = static_cast<int>(entries.size());
    const PathChoice choice = ChooseMix(entries, k);
    std::vector<double> distribution(entries.size());
    KSeqChoiceDistribution(choice.kseq, entries.data(), n, k, distribution.data());
    ExpectEntries(entries, distribution, ChosenDistribution(pair, k, choice, 1), seed);
    const double kseq_overlap = Overlap(entries.data(), n, distribution.data());
    RatioChoiceDistribution(entries.data(), n, k, distribution.data());
    ExpectEntries(entries, distribution, ChosenDistribution(pair, k, choice, 0), seed);
    ExpectEntries(entries, choice.distribution.weights,
                  ChosenDistribution(pair, k, choice, choice.kseq_share), seed);
    const double best = Overlap(entries.data(), n, choice.distribution.weights.data());
    EXPECT_GE(best, kseq_overlap) << seed;
    EXPECT_GE(best, Overlap(entries.data(), n, distribution.data())) << seed;
    EXPECT_LE(best, OptimalAcceptance(entries.data(), n, k) + kTolerance) << seed;
    mixed += choice.kseq_share > 0 && choice.kseq_share < 1;
  }
  EXPECT_GT(mixed, 30);
}

// (Q + q)^k - Q^k, where the id decides between tokens with equal ratios.
TEST(PathChoice, RatioTakesFirstInRank) {
  const std::vector<RatioEntry> entries = {{.id = 4, .p = .4, .q = .1},
                                           {.id = 0, .p = .3, .q = .3},
                                           {.id = 2, .p = .2, .q = .2},
                                           {.id = 1, .p = .1, .q = .4}};
  EXPECT_TRUE(std::is_sorted(entries.begin(), entries.end(), RanksBefore));
  std::array<double, 4> distribution;
  RatioChoiceDistribution(entries.data(), 4, 2, distribution.data());
  EXPECT_NEAR(distribution[0], 1 - .81, kTolerance);
  EXPECT_NEAR(distribution[1], .81 - .36, kTolerance);
  EXPECT_NEAR(distribution[2], .36 - .16, kTolerance);
  EXPECT_NEAR(distribution[3], .16, kTolerance);
}

// The rule with only the k-SEQ choice, or only the ratio choice.
Emitter WithShare(double share) {
  return EmitterOfCode([share](EnumeratedRound& round, EnumeratingCoins& coins) {
    std::vector<int> nodes = {DraftTree::kRoot};
    std::vector<OwnedRow> distributions;
    while (!round.draws(nodes.back()).empty()) {
      const int node = nodes.back();
      const auto k = static_cast<int>(round.draws(node).size());
      const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
      const auto n = static_cast<int>(entries.size());
      PathChoice choice{.kseq = SolveKSeq(entries.data(), n, k),
                        .kseq_share = share,
                        .distribution = RowOver(entries)};
      if (share > 0) {
        KSeqChoiceDistribution(choice.kseq, entries.data(), n, k,
                               choice.distribution.weights.data());
      } else {
        RatioChoiceDistribution(entries.data(), n, k, choice.distribution.weights.data());
      }
      nodes.push_back(ChooseDraw(round, node, choice, entries, coins));
      distributions.push_back(std::move(choice.distribution));
    }
    std::vector<SparseRow<double>> rows;
    for (const OwnedRow& distribution : distributions) rows.push_back(distribution.row());
    return VerifyPath(round, std::span<const int>(nodes), std::span<const SparseRow<double>>(rows),
                      coins);
  });
}

// A drafter that is a mixture of the target and `other`, half each.
Model HalfOf(const Model& target, const Model& other) {
  return [=](std::span<const TokenId> context) {
    OutputDistribution distribution = target(context);
    const OutputDistribution rest = other(context);
    for (size_t x = 0; x < distribution.size(); ++x)
      distribution[x] = (distribution[x] + rest[x]) / 2;
    return distribution;
  };
}

struct Means {
  double token = 0, block = 0, spectr = 0, kseq_choice = 0, mixed = 0, ratio = 0;
};

// For first-order pairs, length 3. The known figures are from other random pairs, so only their
// magnitude and their order can be expected.
Means MeansOfRandomPairs(int k, int largest_vocab, int pairs) {
  Means means;
  for (int i = 0; i < pairs; ++i) {
    const int vocab = 3 + i % (largest_vocab - 2);
    const auto seed = static_cast<uint64_t>(700 + i);
    const Model target = RandomModel(vocab, seed, 0, 1);
    const EnumeratedPair pair{vocab, target, HalfOf(target, RandomModel(vocab, ~seed, 0, 1))};
    const DraftShape shape = Sequences(k, 3), one = Sequences(1, 3);
    const double token = Mean(AcceptedDistribution(Rule::kToken, pair, one));
    const double block = Mean(AcceptedDistribution(Rule::kBlock, pair, one));
    const double spectr = Mean(AcceptedDistribution(Rule::kSpecTr, pair, shape));
    const double mixed = Mean(AcceptedDistribution(Rule::kMultiPathBlock, pair, shape));
    const double kseq_choice = Mean(AcceptedDistribution(WithShare(1), pair, shape));
    EXPECT_GE(block, token - kTolerance) << i;
    EXPECT_GE(spectr, token - kTolerance) << i;
    EXPECT_GE(kseq_choice, spectr - kTolerance) << i;
    EXPECT_GE(mixed, spectr - kTolerance) << i;
    means.token += token / pairs;
    means.block += block / pairs;
    means.spectr += spectr / pairs;
    means.kseq_choice += kseq_choice / pairs;
    means.mixed += mixed / pairs;
    means.ratio += Mean(AcceptedDistribution(WithShare(0), pair, shape)) / pairs;
  }
  return means;
}

void ExpectOrder(const Means& m) {
  EXPECT_GT(m.block, m.token);
  EXPECT_GT(m.spectr, m.block);
  EXPECT_GT(m.kseq_choice, m.spectr);
  EXPECT_GT(m.mixed, m.kseq_choice);
  EXPECT_LT(m.ratio, m.mixed);
}

TEST(MultiPathBlock, TwoSequencesBeatOtherRules) {
  const Means m = MeansOfRandomPairs(2, 4, 14);
  ExpectOrder(m);
  EXPECT_NEAR(m.token, 1.825, 0.2);
  EXPECT_NEAR(m.mixed, 2.332, 0.2);
}

TEST(MultiPathBlock, ThreeSequencesBeatOtherRules) {
  const Means m = MeansOfRandomPairs(3, 3, 5);
  ExpectOrder(m);
  EXPECT_NEAR(m.token, 1.825, 0.2);
  EXPECT_NEAR(m.mixed, 2.510, 0.2);
}

TEST(MultiPathBlock, EitherChoiceAloneIsLossless) {
  for (const double share : {0.0, 1.0}) {
    EXPECT_LE(RoundError(WithShare(share), ThreeTokens(), Sequences(2, 2)), kTolerance) << share;
    EXPECT_LE(RoundError(WithShare(share), FourTokens(), Sequences(2, 2)), kTolerance) << share;
  }
}

TEST(MultiPathBlock, OneSequenceAcceptsLikeBlockVerification) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const double zeros = seed % 2 == 0 ? 0 : 0.4;
    const EnumeratedPair pair{3, RandomModel(3, seed, zeros), RandomModel(3, ~seed, zeros)};
    EXPECT_EQ(AcceptedDistribution(Rule::kMultiPathBlock, pair, Sequences(1, 3)),
              AcceptedDistribution(Rule::kBlock, pair, Sequences(1, 3)))
        << seed;
  }
}

// Random numbers for both rules, in double.
struct KeyedCoins {
  uint64_t seed;
  bool Flip(Purpose purpose, int depth, int trial, double probability) const {
    return Coin(seed, 0, static_cast<uint32_t>(depth), purpose, static_cast<uint32_t>(trial)) <
           probability;
  }
  template <class Real>
  TokenId Next(int depth, const ResidualRow<Real>& distribution) const {
    return distribution.Draw(Coin(seed, 0, static_cast<uint32_t>(depth), Purpose::kNextToken));
  }
};

TEST(MultiPathBlock, OneSequenceEqualsBlockVerification) {
  int accepted = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const EnumeratedPair pair{5, RandomModel(5, seed, 0.2), RandomModel(5, ~seed, 0.2)};
    Tokens tokens;
    for (uint32_t i = 0; i < 4; ++i) {
      const OutputDistribution row = pair.draft(tokens);
      const std::vector<float> probs(row.begin(), row.end());
      tokens.push_back(SampleRow(probs, Coin(seed, 0, i, Purpose::kDraftToken)));
    }
    ToyRound round(pair, DraftTree::Chain(tokens, {}));
    KeyedCoins coins{seed};
    const Verdict block = Verify(Rule::kBlock, round, coins);
    const Verdict several = Verify(Rule::kMultiPathBlock, round, coins);
    EXPECT_EQ(several.node, block.node) << seed;
    EXPECT_EQ(several.next, block.next) << seed;
    accepted += block.accepted;
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace outrider::testing
