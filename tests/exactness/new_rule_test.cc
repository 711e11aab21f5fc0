// A new rule is one function over a group of lanes (common/rules/rule.h). This shows how to write
// one, and how to prove that it preserves the target distribution.
#include <gtest/gtest.h>

#include "common/rules/philox_coins.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// Token verification of only the first draft token; the rest of the draft is ignored.
template <class View, class Coins>
OUTRIDER_LANES Stop VerifyFirstToken(const View& round, Coins& coins) {
  if (round.draws(DraftTree::kRoot) == 0) return outrider::StopAtLeaf(DraftTree::kRoot);
  const SparseRow<double> draft = round.Draft(DraftTree::kRoot, 0);
  const int child = round.draw(DraftTree::kRoot, 0);
  const double accept = round.Accepted(1, DraftTree::kRoot, draft, round.token(child));
  if (!coins.Flip(Purpose::kAccept, 0, 0, accept)) return {DraftTree::kRoot, 1, draft};
  return outrider::StopAtLeaf(child);
}

// The same, but it accepts more often than allowed.
template <class View, class Coins>
OUTRIDER_LANES Stop VerifyFirstTokenKindly(const View& round, Coins& coins) {
  const Stop stop = VerifyFirstToken(round, coins);
  const int draws = round.draws(DraftTree::kRoot);
  return stop.node == DraftTree::kRoot && draws > 0 && coins.Flip(Purpose::kAccept, 0, 1, 0.1)
             ? outrider::StopAtLeaf(round.draw(DraftTree::kRoot, 0))
             : stop;
}

template <class Rule>
Emitter EmitterOfRule(Rule rule) {
  return EmitterOfCode([rule](EnumeratedRound& round, EnumeratingCoins& coins) {
    return OnView(round, [&](const auto& view) {
      const Stop stop = rule(view, coins);
      return EndRound(round, stop, coins);
    });
  });
}

TEST(NewRule, IsLosslessByEnumeration) {
  const Emitter rule =
      EmitterOfRule([](const auto& view, auto& coins) { return VerifyFirstToken(view, coins); });
  for (const int length : {0, 1, 3}) {
    EXPECT_LE(RoundError(rule, ThreeTokens(), Sequences(1, length)), 1e-12) << length;
    EXPECT_LE(RoundError(rule, FourTokens(), Sequences(1, length)), 1e-12) << length;
  }
  EXPECT_NEAR(Mean(AcceptedDistribution(rule, ThreeTokens(), Sequences(1, 3))),
              Mean(AcceptedDistribution(Rule::kToken, ThreeTokens(), Sequences(1, 1))), 1e-12);
}

TEST(NewRule, EnumerationShowsItIsLossy) {
  const Emitter rule = EmitterOfRule(
      [](const auto& view, auto& coins) { return VerifyFirstTokenKindly(view, coins); });
  EXPECT_GT(RoundError(rule, ThreeTokens(), Sequences(1, 1)), 0.01);
}

}  // namespace
}  // namespace outrider::testing
