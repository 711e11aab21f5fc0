// The published and derived figures of Sun et al. 2025: their two-token toy (Section 2, Eq. 2), and
// a four-token first-order chain, which unlike the two-token toy also distinguishes rows and random
// numbers.
#include <gtest/gtest.h>

#include "tests/exactness/tolerance.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

void ExpectDistribution(const OutputDistribution& got, const OutputDistribution& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kTolerance) << i;
}

// The joint distribution of (tau, next) given the draft, tau-major.
OutputDistribution VerdictDistribution(Rule rule, const EnumeratedPair& pair, const Tokens& draft) {
  OutputDistribution distribution((draft.size() + 1) * static_cast<size_t>(pair.vocab), 0.0);
  ToyRound round(pair, DraftTree::Chain(draft, {}));
  Enumeration enumeration;
  do {
    EnumeratingCoins coins(&enumeration, /*branch_next=*/true);
    const Verdict verdict = Verify(rule, round, coins);
    distribution[static_cast<size_t>(verdict.accepted * pair.vocab + verdict.next)] +=
        enumeration.probability();
  } while (enumeration.Advance());
  return distribution;
}

// Pr(tau = i | draft).
OutputDistribution AcceptedGiven(Rule rule, const EnumeratedPair& pair, const Tokens& draft) {
  const OutputDistribution distribution = VerdictDistribution(rule, pair, draft);
  OutputDistribution pmf(draft.size() + 1, 0.0);
  for (size_t cell = 0; cell < distribution.size(); ++cell) {
    pmf[cell / static_cast<size_t>(pair.vocab)] += distribution[cell];
  }
  return pmf;
}

TEST(TwoTokenToy, AcceptsTheExpectedNumberOfTokens) {
  ExpectDistribution(AcceptedDistribution(Rule::kToken, TwoTokens(), Sequences(1, 2)),
                     {1. / 3, 2. / 9, 4. / 9});
  ExpectDistribution(AcceptedDistribution(Rule::kBlock, TwoTokens(), Sequences(1, 2)),
                     {1. / 3, 1. / 9, 5. / 9});
  EXPECT_NEAR(Mean(AcceptedDistribution(Rule::kToken, TwoTokens(), Sequences(1, 2))), 10. / 9,
              kTolerance);
  EXPECT_NEAR(Mean(AcceptedDistribution(Rule::kBlock, TwoTokens(), Sequences(1, 2))), 11. / 9,
              kTolerance);
}

TEST(TwoTokenToy, DecidesDraftsAsPublished) {
  ExpectDistribution(AcceptedGiven(Rule::kBlock, TwoTokens(), {0, 0}), {3. / 4, 0, 1. / 4});
  ExpectDistribution(AcceptedGiven(Rule::kBlock, TwoTokens(), {0, 1}), {0, 0, 1});
  ExpectDistribution(AcceptedGiven(Rule::kBlock, TwoTokens(), {1, 0}), {0, 1. / 2, 1. / 2});
  ExpectDistribution(AcceptedGiven(Rule::kBlock, TwoTokens(), {1, 1}), {0, 0, 1});
  // AA is rejected, and B follows.
  const OutputDistribution distribution = VerdictDistribution(Rule::kBlock, TwoTokens(), {0, 0});
  EXPECT_NEAR(distribution[0], 0, kTolerance);
  EXPECT_NEAR(distribution[1], 3. / 4, kTolerance);
}

TEST(TwoTokenToy, HasPublishedMeans) {
  const double block[] = {2. / 3,      11. / 9,    5. / 3,        166. / 81,    64. / 27,
                          1933. / 729, 703. / 243, 20384. / 6561, 7202. / 2187, 204271. / 59049};
  double token = 0;
  for (int g = 1; g <= 10; ++g) {
    token += std::pow(2. / 3, g);
    EXPECT_NEAR(Mean(AcceptedDistribution(Rule::kToken, TwoTokens(), Sequences(1, g))), token,
                kTolerance)
        << g;
    EXPECT_NEAR(Mean(AcceptedDistribution(Rule::kBlock, TwoTokens(), Sequences(1, g))),
                block[g - 1], kTolerance)
        << g;
  }
}

TEST(FourTokenToy, HasTheDerivedAcceptance) {
  const EnumeratedPair pair = FourTokens();
  for (const Rule rule : {Rule::kToken, Rule::kBlock}) {
    ExpectDistribution(AcceptedDistribution(rule, pair, Sequences(1, 1)), {1. / 4, 3. / 4});
  }
  ExpectDistribution(AcceptedDistribution(Rule::kToken, pair, Sequences(1, 2)),
                     {1. / 4, 77. / 240, 103. / 240});
  ExpectDistribution(AcceptedDistribution(Rule::kBlock, pair, Sequences(1, 2)),
                     {1. / 4, 13. / 48, 23. / 48});
  ExpectDistribution(AcceptedDistribution(Rule::kToken, pair, Sequences(1, 3)),
                     {1. / 4, 77. / 240, 5047. / 28800, 7313. / 28800});
  ExpectDistribution(AcceptedDistribution(Rule::kBlock, pair, Sequences(1, 3)),
                     {1. / 4, 13. / 48, 1397. / 9600, 3203. / 9600});
  EXPECT_NEAR(Mean(AcceptedDistribution(Rule::kToken, pair, Sequences(1, 4))), 5471983. / 3456000,
              kTolerance);
  EXPECT_NEAR(Mean(AcceptedDistribution(Rule::kBlock, pair, Sequences(1, 4))), 2088917. / 1152000,
              kTolerance);
}

struct DraftCase {
  Tokens draft;
  OutputDistribution p;         // p_1..p_3
  OutputDistribution residual;  // S_0..S_2
  OutputDistribution h;         // h_1..h_3
  OutputDistribution block;     // Pr(tau | draft)
  OutputDistribution token;
};

TEST(FourTokenToy, HasDerivedValuesOfEachDraft) {
  const EnumeratedPair pair = FourTokens();
  const std::vector<DraftCase> cases = {
      {{1, 0, 1},
       {1. / 2, 1, 1},
       {1. / 4, 1. / 5, 1. / 3},
       {2. / 7, 1, 1},
       {0, 0, 0, 1},
       {1. / 2, 0, 0, 1. / 2}},
      {{1, 2, 2},
       {1. / 2, 1. / 6, 1. / 3},
       {1. / 4, 1. / 5, 0},
       {2. / 7, 0, 1. / 3},
       {10. / 21, 4. / 21, 0, 1. / 3},
       {1. / 2, 1. / 3, 0, 1. / 6}},
      {{1, 3, 0},
       {1. / 2, 1. / 10, 1. / 5},
       {1. / 4, 1. / 5, 0},
       {2. / 7, 0, 1. / 5},
       {4. / 7, 8. / 35, 0, 1. / 5},
       {1. / 2, 2. / 5, 0, 1. / 10}},
      {{0, 0, 1},
       {1, 1. / 2, 1},
       {1. / 4, 1. / 3, 0},
       {1, 0, 1},
       {0, 0, 0, 1},
       {0, 1. / 2, 0, 1. / 2}},
      {{2, 0, 3},
       {1, 1. / 4, 1. / 8},
       {1. / 4, 1. / 2, 0},
       {1, 0, 1. / 8},
       {0, 7. / 8, 0, 1. / 8},
       {0, 3. / 4, 1. / 8, 1. / 8}},
      {{3, 2, 0},
       {1, 1, 1. / 4},
       {1. / 4, 1. / 5, 1. / 2},
       {1, 1, 1. / 4},
       {0, 0, 3. / 4, 1. / 4},
       {0, 0, 3. / 4, 1. / 4}},
  };
  for (const DraftCase& c : cases) {
    const ToyRound round(pair, DraftTree::Chain(c.draft, {}));
    double p = 1;
    for (int i = 0; i < 3; ++i) {
      const auto index = static_cast<size_t>(i);
      const double residual = ResidualMass(p, round.target(i), round.draft(i));
      EXPECT_NEAR(residual, c.residual[index], kTolerance);
      if (i > 0) {
        EXPECT_NEAR(InnerAcceptance(p, residual), c.h[index - 1], kTolerance);
      }
      p = AcceptedMass(p, round.target(i), round.draft(i), round.token(i + 1));
      EXPECT_NEAR(p, c.p[index], kTolerance);
    }
    EXPECT_NEAR(p, c.h[2], kTolerance);
    ExpectDistribution(AcceptedGiven(Rule::kBlock, pair, c.draft), c.block);
    ExpectDistribution(AcceptedGiven(Rule::kToken, pair, c.draft), c.token);
  }
}

TEST(FourTokenToy, HasTheDerivedJointDistribution) {
  const OutputDistribution distribution =
      VerdictDistribution(Rule::kBlock, FourTokens(), {1, 2, 2});
  ExpectDistribution(distribution, {10. / 21, 0, 0, 0,      //
                                    1. / 7, 1. / 21, 0, 0,  //
                                    0, 0, 0, 0,             //
                                    1. / 24, 1. / 24, 1. / 12, 1. / 6});
}

}  // namespace
}  // namespace outrider::testing
