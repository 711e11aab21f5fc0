// The figures of Sun et al. 2023 ("SpecTr") and the exact values derived from its formulas: k-SEQ's
// division factor and acceptance, the optimum, multi-round rejection, and a three-token chain.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/spectr_figures.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

constexpr double kPrinted = 6e-7;  // six printed digits
constexpr double kExact = 1e-9;
constexpr double kRounding = 1e-12;

// One token-level selection: k draft tokens from distribution q for target distribution p.
struct Selection {
  std::vector<RatioEntry> entries;
  OutputDistribution p, q;
  int k;

  Selection(OutputDistribution q_distribution, OutputDistribution p_distribution, int draws)
      : p(p_distribution), q(q_distribution), k(draws) {
    std::vector<TokenId> ids(q.size());
    std::iota(ids.begin(), ids.end(), 0);
    entries = RankEntries(p.data(), SparseRow<double>{ids.data(), q.data(), size(), 1});
  }
  int size() const { return static_cast<int>(q.size()); }
  int entry_count() const { return static_cast<int>(entries.size()); }
  KSeq Solve() const { return SolveKSeq(entries.data(), entry_count(), k); }
  double KSeqAcceptance() const { return Solve().gain * Solve().beta; }
  double Optimum() const { return OptimalAcceptance(entries.data(), entry_count(), k); }
  // One depth of the pair of these distributions, through the rule.
  double Accepted(Rule rule) const {
    const EnumeratedPair pair{size(), [this](std::span<const TokenId>) { return p; },
                              [this](std::span<const TokenId>) { return q; }};
    return AcceptedDistribution(rule, pair, Sequences(k, 1))[1];
  }
  // max(p - gain min(q, p / rho), 0), not normalised.
  OutputDistribution Residual(const KSeq& kseq) const {
    OutputDistribution residual = p;
    for (size_t x = 0; x < p.size(); ++x) {
      residual[x] = std::max(0.0, p[x] - kseq.gain * kseq.Mass(p[x], q[x]));
    }
    return residual;
  }
};

Selection Bernoulli(double draft, double target, int k) {
  return {{1 - draft, draft}, {1 - target, target}, k};
}

TEST(KSeq, HasTheFiguresOfBernoulli) {
  for (const BernoulliFigures& c : kBernoulliFigures) {
    const Selection s = Bernoulli(.25, c.b, c.k);
    EXPECT_NEAR(s.Solve().rho, c.rho, kPrinted) << c.b << " " << c.k;
    EXPECT_NEAR(s.Solve().beta, c.beta, kPrinted) << c.b << " " << c.k;
    EXPECT_NEAR(s.KSeqAcceptance(), c.kseq, kPrinted) << c.b << " " << c.k;
    EXPECT_NEAR(s.Optimum(), c.optimum, kPrinted) << c.b << " " << c.k;
    const double alpha = std::min(c.b, 1 - std::pow(.75, c.k)) +
                         std::min(1 - c.b, 1 - std::pow(.25, c.k));  // Eq. (10)
    EXPECT_NEAR(s.Optimum(), alpha, kRounding) << c.b << " " << c.k;
    if (c.k > 6) continue;
    EXPECT_NEAR(s.Accepted(Rule::kSpecTr), c.kseq, kPrinted) << c.b << " " << c.k;
    EXPECT_NEAR(s.Accepted(Rule::kMultiRound), c.multiround, kPrinted) << c.b << " " << c.k;
  }
}

TEST(RecursiveRest, HasTheFiguresOfBernoulli) {
  const struct {
    double b;
    int k;
    double accepted;
  } cases[] = {{.10, 8, .999991}, {.50, 8, .966629}, {.75, 8, .933258}, {.75, 10, .962458}};
  for (const auto& c : cases) {
    const Selection s = Bernoulli(.25, c.b, c.k);
    RecursiveRest rest;
    double all_fail = 1;
    for (int i = 0; i < c.k; ++i) {
      double trial = 0;
      for (const RatioEntry& e : s.entries) trial += e.q * rest.Trial(e.p, e.q);
      all_fail *= 1 - trial;
      rest.Reject(s.entries.data(), s.entry_count());
    }
    EXPECT_NEAR(1 - all_fail, c.accepted, kPrinted) << c.b << " " << c.k;
  }
}

TEST(KSeq, TakesEveryDraftIfEqual) {
  for (const int k : {1, 2, 4, 8}) {
    const Selection s = Bernoulli(.25, .25, k);
    EXPECT_NEAR(s.KSeqAcceptance(), 1, kRounding) << k;
    EXPECT_NEAR(s.Solve().rho, 1, 0.02)
        << k;  // a root of multiplicity k: rounding may stop above it
    EXPECT_EQ(s.Optimum(), 1) << k;
  }
}

TEST(KSeq, HasClosedFormsOfNestedUniforms) {
  constexpr int kDraft = 120;
  for (const int r : {2, 3, 4, 5, 10}) {
    for (const int k : {1, 2, 4, 8, 16}) {
      OutputDistribution q(kDraft, 1.0 / kDraft), p(kDraft, 0.0);
      std::fill_n(p.begin(), kDraft / r, static_cast<double>(r) / kDraft);
      const Selection s(q, p, k);
      const double alpha = 1 - std::pow(1 - 1.0 / r, k);
      EXPECT_NEAR(s.Solve().rho, r * alpha, kExact) << r << " " << k;
      EXPECT_NEAR(s.Solve().beta, 1.0 / r, kExact) << r << " " << k;
      EXPECT_NEAR(s.KSeqAcceptance(), alpha, kExact) << r << " " << k;
      EXPECT_NEAR(s.Optimum(), alpha, kExact) << r << " " << k;
    }
  }
}

TEST(KSeq, HasClosedFormsOfPointMasses) {
  for (const int k : {2, 3, 4, 8}) {
    const Selection sure = Bernoulli(1, .5, k);
    EXPECT_NEAR(sure.Solve().rho, 1 / (2 * (1 - std::pow(2.0, -1.0 / k))), kExact) << k;
    EXPECT_NEAR(sure.KSeqAcceptance(), .5, kExact) << k;
    EXPECT_NEAR(sure.Optimum(), .5, kExact) << k;
  }
  EXPECT_NEAR(Bernoulli(1, .5, 2).Solve().rho, 1.707107, kPrinted);
  EXPECT_NEAR(Bernoulli(1, .5, 8).Solve().rho, 6.024390, kPrinted);
  for (const int k : {1, 2, 4}) {
    const Selection sure_target({.2, .3, .5}, {0, 0, 1}, k);
    EXPECT_NEAR(sure_target.Solve().rho, 2 * (1 - std::pow(.5, k)), kExact) << k;
    EXPECT_NEAR(sure_target.KSeqAcceptance(), 1 - std::pow(.5, k), kExact) << k;
    const Selection sure_draft({1, 0, 0}, {.2, .3, .5}, k);
    EXPECT_NEAR(sure_draft.KSeqAcceptance(), .2, kExact) << k;
    const OutputDistribution residual = sure_draft.Residual(sure_draft.Solve());
    EXPECT_NEAR(residual[0], 0, kExact) << k;
    EXPECT_NEAR(residual[1] / .8, .375, kExact) << k;
    EXPECT_NEAR(residual[2] / .8, .625, kExact) << k;
  }
}

TEST(ThreeTokenToy, HasDerivedPlanOfEachPrefix) {
  const EnumeratedPair pair = ThreeTokens();
  for (const KSeqFigures& plan : kThreeTokenPlans) {
    const Tokens context = plan.last < 0 ? Tokens{} : Tokens{plan.last};
    const Selection s(pair.draft(context), pair.target(context), plan.k);
    EXPECT_NEAR(s.Solve().rho, plan.rho, kExact) << plan.last << " " << plan.k;
    EXPECT_NEAR(s.Solve().beta, plan.beta, kExact) << plan.last << " " << plan.k;
    EXPECT_NEAR(s.KSeqAcceptance(), plan.accepted, kExact) << plan.last << " " << plan.k;
    EXPECT_NEAR(s.Optimum(), plan.optimum, kExact) << plan.last << " " << plan.k;
    const OutputDistribution residual = s.Residual(s.Solve());
    for (size_t x = 0; x < 3; ++x) {
      EXPECT_NEAR(residual[x] / (1 - s.KSeqAcceptance()), plan.residual[x], kExact) << plan.last;
    }
  }
}

struct ShapeCase {
  DraftShape shape;
  double tokens;                // mean number of tokens emitted per round
  OutputDistribution accepted;  // may be empty
};

TEST(ThreeTokenToy, AcceptsTheDerivedNumberOfTokens) {
  const ShapeCase cases[] = {
      {Sequences(1, 1), 1.7, {.3, .7}},
      {Sequences(2, 1), 1.791355287, {.208644713, .791355287}},
      {Sequences(3, 1), 1.858518606, {.141481394, .858518606}},
      {Sequences(4, 1), 1.906007168, {}},
      {Sequences(1, 2), 2.11, {.3, .29, .41}},
      {Sequences(2, 2), 2.271024451, {.208644713, .311686124, .479669163}},
      {Sequences(3, 2), 2.397892929, {.141481394, .319144282, .539374323}},
      {Sequences(1, 3), 2.346, {.3, .29, .174, .236}},
      {Sequences(2, 3), 2.551677313, {.208644713, .311686124, .199016301, .280652862}},
      {{.length = 2, .branching = {1, 2}}, 2.210444288, {}},
      {{.length = 2, .branching = {2, 2}}, 2.382729955, {}},
      {{.length = 2, .branching = {1, 3}}, 2.269516609, {}},
      {{.length = 2, .branching = {2, 1}}, 2.271024451, {}},
      {{.length = 2, .branching = {3, 1}}, 2.397892929, {}},
  };
  for (const ShapeCase& c : cases) {
    const OutputDistribution accepted = AcceptedDistribution(Rule::kSpecTr, ThreeTokens(), c.shape);
    EXPECT_NEAR(Mean(accepted) + 1, c.tokens, kExact);
    for (size_t i = 0; i < c.accepted.size(); ++i) EXPECT_NEAR(accepted[i], c.accepted[i], kExact);
    EXPECT_LE(RoundError(EmitterOf(Rule::kSpecTr), ThreeTokens(), c.shape), kRounding);
  }
}

// k-SEQ at rho = k, which is valid but not optimal. A residual token that is in the draft continues
// along it: at rho > rho* it need not be new (Algorithm 3 asks whether Y is among the drafts, not
// where it came from).
Verdict VerifyAtLargestRho(EnumeratedRound& round, EnumeratingCoins& coins) {
  int node = DraftTree::kRoot;
  for (;;) {
    const auto k = static_cast<int>(round.draws(node).size());
    if (k == 0) return StopAtLeaf(round, node, coins);
    const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
    KSeq kseq{.rho = static_cast<double>(k)};
    for (const RatioEntry& e : entries) kseq.beta += kseq.Mass(e.p, e.q);
    kseq.gain = GeometricSum(kseq.beta, k);
    int child = TryCandidates(round, node, kseq, entries, coins);
    if (child < 0) {
      OwnedRow accepted = RowOver(entries);
      for (size_t i = 0; i < entries.size(); ++i) {
        accepted.weights[i] = kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
      }
      const Verdict stop = StopAt(round, node, 1, accepted.row(), coins);
      child = round.tree().Child(node, stop.next);
      if (child < 0) return stop;
    }
    node = child;
  }
}

TEST(ThreeTokenToy, HasDerivedAcceptanceAtLargestRho) {
  const ShapeCase cases[] = {{Sequences(2, 1), 1.770950, {}},
                             {Sequences(3, 1), 1.839952, {}},
                             {Sequences(2, 2), 2.229042, {}},
                             {Sequences(3, 2), 2.354621, {}}};
  const Emitter rule = EmitterOfCode(VerifyAtLargestRho);
  for (const ShapeCase& c : cases) {
    EXPECT_NEAR(Mean(AcceptedDistribution(rule, ThreeTokens(), c.shape)) + 1, c.tokens, kPrinted);
    EXPECT_LE(RoundError(rule, ThreeTokens(), c.shape), kRounding);
  }
}

TEST(KSeq, HoldsItsInvariantsOnRandomRows) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const int vocab = 2 + static_cast<int>(seed % 7), k = 1 + static_cast<int>(seed / 7 % 8);
    const double zeros = seed % 3 == 0 ? 0.4 : 0;
    const Selection s(RandomRow(vocab, 2 * seed, zeros), RandomRow(vocab, 2 * seed + 1, zeros), k);
    const KSeq kseq = s.Solve();
    double largest = s.entry_count() < vocab ? k : 1, overlap = 0, cheap = 0;
    for (const RatioEntry& e : s.entries) {
      largest = std::max(largest, e.p / e.q);
      overlap += std::min(kseq.rho * e.q, e.p);
      cheap += std::min(e.p, 1 - Power(1 - e.q, k));
    }
    EXPECT_GE(kseq.rho, 1) << seed;
    EXPECT_LE(kseq.rho, k) << seed;
    EXPECT_LE(kseq.rho, largest * (1 + 1e-9)) << seed;     // max p / q
    EXPECT_LE(kseq.gain, kseq.rho * (1 + 1e-12)) << seed;  // no residual below 0
    const double accepted = kseq.gain * kseq.beta;
    EXPECT_NEAR(accepted, kseq.rho * kseq.beta, 1e-6) << seed;
    EXPECT_NEAR(accepted, overlap, 1e-6) << seed;
    EXPECT_NEAR(accepted, 1 - Power(1 - kseq.beta, k), 1e-12) << seed;
    // Theorem 1, and the optimum's bounds.
    const double alpha = s.Optimum();
    EXPECT_LE(accepted, alpha + 1e-12) << seed;
    EXPECT_GE(accepted, (1 - Power(1 - 1.0 / k, k)) * alpha - 1e-12) << seed;
    EXPECT_LE(alpha, cheap + 1e-12) << seed;
    double out = 0;
    for (const double r : s.Residual(kseq)) out += r;
    EXPECT_NEAR(out, 1 - accepted, 1e-12) << seed;
    Selection more = s;
    ++more.k;
    EXPECT_GE(more.Optimum(), alpha - 1e-12) << seed;
    if (k == 1) {
      EXPECT_EQ(kseq.rho, 1) << seed;
      EXPECT_NEAR(accepted, alpha, 1e-12) << seed;
    }
  }
}

// rho* is the smallest valid one: slightly below it, the residual would be negative.
TEST(KSeq, SolvesForTheLeastValidRho) {
  for (const auto& [b, k] : {std::pair(.75, 2), {.75, 4}, {.1, 3}, {.5, 8}}) {
    const Selection s = Bernoulli(.25, b, k);
    KSeq below = s.Solve();
    below.rho *= 0.999;
    below.beta = 0;
    for (const RatioEntry& e : s.entries) below.beta += below.Mass(e.p, e.q);
    EXPECT_GT(GeometricSum(below.beta, k), below.rho) << b << " " << k;
  }
}

}  // namespace
}  // namespace outrider::testing
