// The published and derived figures of Sun et al. 2025: their two-token toy (Section 2, Eq. 2), and
// a four-token first-order chain, which unlike the two-token toy also distinguishes rows and random
// numbers.
#include <gtest/gtest.h>

#include "tests/laws/tolerance.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

void ExpectLaw(const Law& got, const Law& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kTolerance) << i;
}

// The joint distribution of (tau, next) given the draft, tau-major.
Law VerdictLaw(Rule rule, const EnumeratedPair& pair, const Tokens& draft) {
  Law law((draft.size() + 1) * static_cast<size_t>(pair.vocab), 0.0);
  ToyRound round(pair, DraftTree::Chain(draft, {}));
  Enumeration enumeration;
  do {
    EnumeratingCoins coins(&enumeration, /*branch_next=*/true);
    const Verdict verdict = Verify(rule, round, coins);
    law[static_cast<size_t>(verdict.accepted * pair.vocab + verdict.next)] +=
        enumeration.probability();
  } while (enumeration.Advance());
  return law;
}

// Pr(tau = i | draft).
Law AcceptedGiven(Rule rule, const EnumeratedPair& pair, const Tokens& draft) {
  const Law law = VerdictLaw(rule, pair, draft);
  Law pmf(draft.size() + 1, 0.0);
  for (size_t cell = 0; cell < law.size(); ++cell) {
    pmf[cell / static_cast<size_t>(pair.vocab)] += law[cell];
  }
  return pmf;
}

TEST(TwoTokenToy, AcceptsTheExpectedNumberOfTokens) {
  ExpectLaw(AcceptedLaw(Rule::kToken, TwoTokens(), Sequences(1, 2)), {1. / 3, 2. / 9, 4. / 9});
  ExpectLaw(AcceptedLaw(Rule::kBlock, TwoTokens(), Sequences(1, 2)), {1. / 3, 1. / 9, 5. / 9});
  EXPECT_NEAR(Mean(AcceptedLaw(Rule::kToken, TwoTokens(), Sequences(1, 2))), 10. / 9, kTolerance);
  EXPECT_NEAR(Mean(AcceptedLaw(Rule::kBlock, TwoTokens(), Sequences(1, 2))), 11. / 9, kTolerance);
}

TEST(TwoTokenToy, DecidesEachDraftAsThePaperSays) {
  ExpectLaw(AcceptedGiven(Rule::kBlock, TwoTokens(), {0, 0}), {3. / 4, 0, 1. / 4});
  ExpectLaw(AcceptedGiven(Rule::kBlock, TwoTokens(), {0, 1}), {0, 0, 1});
  ExpectLaw(AcceptedGiven(Rule::kBlock, TwoTokens(), {1, 0}), {0, 1. / 2, 1. / 2});
  ExpectLaw(AcceptedGiven(Rule::kBlock, TwoTokens(), {1, 1}), {0, 0, 1});
  // AA is rejected, and B follows.
  const Law law = VerdictLaw(Rule::kBlock, TwoTokens(), {0, 0});
  EXPECT_NEAR(law[0], 0, kTolerance);
  EXPECT_NEAR(law[1], 3. / 4, kTolerance);
}

TEST(TwoTokenToy, HasThePublishedMeansAtEveryDraftLength) {
  const double block[] = {2. / 3,      11. / 9,    5. / 3,        166. / 81,    64. / 27,
                          1933. / 729, 703. / 243, 20384. / 6561, 7202. / 2187, 204271. / 59049};
  double token = 0;
  for (int g = 1; g <= 10; ++g) {
    token += std::pow(2. / 3, g);
    EXPECT_NEAR(Mean(AcceptedLaw(Rule::kToken, TwoTokens(), Sequences(1, g))), token, kTolerance)
        << g;
    EXPECT_NEAR(Mean(AcceptedLaw(Rule::kBlock, TwoTokens(), Sequences(1, g))), block[g - 1],
                kTolerance)
        << g;
  }
}

TEST(FourTokenToy, HasTheDerivedLawsOfAcceptance) {
  const EnumeratedPair pair = FourTokens();
  for (const Rule rule : {Rule::kToken, Rule::kBlock}) {
    ExpectLaw(AcceptedLaw(rule, pair, Sequences(1, 1)), {1. / 4, 3. / 4});
  }
  ExpectLaw(AcceptedLaw(Rule::kToken, pair, Sequences(1, 2)), {1. / 4, 77. / 240, 103. / 240});
  ExpectLaw(AcceptedLaw(Rule::kBlock, pair, Sequences(1, 2)), {1. / 4, 13. / 48, 23. / 48});
  ExpectLaw(AcceptedLaw(Rule::kToken, pair, Sequences(1, 3)),
            {1. / 4, 77. / 240, 5047. / 28800, 7313. / 28800});
  ExpectLaw(AcceptedLaw(Rule::kBlock, pair, Sequences(1, 3)),
            {1. / 4, 13. / 48, 1397. / 9600, 3203. / 9600});
  EXPECT_NEAR(Mean(AcceptedLaw(Rule::kToken, pair, Sequences(1, 4))), 5471983. / 3456000,
              kTolerance);
  EXPECT_NEAR(Mean(AcceptedLaw(Rule::kBlock, pair, Sequences(1, 4))), 2088917. / 1152000,
              kTolerance);
}

struct DraftCase {
  Tokens draft;
  Law p;         // p_1..p_3
  Law residual;  // S_0..S_2
  Law h;         // h_1..h_3
  Law block;     // Pr(tau | draft)
  Law token;
};

TEST(FourTokenToy, HasTheDerivedValuesOfEachDraft) {
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
      const auto at = static_cast<size_t>(i);
      const double residual = ResidualMass(p, round.target(i), round.draft(i));
      EXPECT_NEAR(residual, c.residual[at], kTolerance);
      if (i > 0) {
        EXPECT_NEAR(InnerAcceptance(p, residual), c.h[at - 1], kTolerance);
      }
      p = AcceptedMass(p, round.target(i), round.draft(i), round.token(i + 1));
      EXPECT_NEAR(p, c.p[at], kTolerance);
    }
    EXPECT_NEAR(p, c.h[2], kTolerance);
    ExpectLaw(AcceptedGiven(Rule::kBlock, pair, c.draft), c.block);
    ExpectLaw(AcceptedGiven(Rule::kToken, pair, c.draft), c.token);
  }
}

TEST(FourTokenToy, HasTheDerivedJointLawOfAcceptedAndNext) {
  const Law law = VerdictLaw(Rule::kBlock, FourTokens(), {1, 2, 2});
  ExpectLaw(law, {10. / 21, 0, 0, 0,      //
                  1. / 7, 1. / 21, 0, 0,  //
                  0, 0, 0, 0,             //
                  1. / 24, 1. / 24, 1. / 12, 1. / 6});
}

}  // namespace
}  // namespace outrider::testing
