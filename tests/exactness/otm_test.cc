// Compares the rules with the optimum over all rules, for a few tokens: optimal transport of one
// token (SpecTr's OTM) and the optimum over all lossless rules for one round.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/toy_pair.h"
#include "tests/support/transport_plan.h"

namespace outrider::testing {
namespace {

constexpr double kSolverTolerance = 1e-9;

std::vector<RatioEntry> EntriesOf(const OutputDistribution& p, const OutputDistribution& q) {
  std::vector<TokenId> ids(q.size());
  std::iota(ids.begin(), ids.end(), 0);
  return RankEntries(p.data(),
                     SparseRow<double>{ids.data(), q.data(), static_cast<int>(q.size()), 1});
}

EnumeratedPair OneRow(const OutputDistribution& p, const OutputDistribution& q) {
  return {static_cast<int>(p.size()), [=](std::span<const TokenId>) { return p; },
          [=](std::span<const TokenId>) { return q; }};
}

double Accepted(Rule rule, const EnumeratedPair& pair, const DraftShape& shape) {
  return Mean(AcceptedDistribution(rule, pair, shape));
}

// Rows of 2 to 4 tokens, including zeros, with 1 to 3 draft tokens (4 for two-token rows).
struct Rows {
  OutputDistribution p, q;
  int k;
  std::string name;
};
std::vector<Rows> RandomRows() {
  std::vector<Rows> all;
  for (uint64_t seed = 0; seed < 160; ++seed) {
    const int vocab = 2 + static_cast<int>(seed % 3);
    const int k = 1 + static_cast<int>(seed / 3) % (vocab == 2 ? 4 : 3);
    const double zeros[][2] = {{0, 0}, {0.4, 0}, {0, 0.4}, {0.4, 0.4}};
    const auto& z = zeros[seed / 12 % 4];
    all.push_back({RandomRow(vocab, 2 * seed, z[0]), RandomRow(vocab, 2 * seed + 1, z[1]), k,
                   "rows " + std::to_string(seed)});
  }
  return all;
}

TEST(OptimalAcceptance, IsThatOfTheOptimalPlan) {
  for (const Rows& rows : RandomRows()) {
    const std::vector<RatioEntry> entries = EntriesOf(rows.p, rows.q);
    const auto n = static_cast<int>(entries.size());
    const double optimum = SolveTransport(rows.p, rows.q, rows.k).acceptance;
    EXPECT_NEAR(OptimalAcceptance(entries.data(), n, rows.k), optimum, kSolverTolerance)
        << rows.name;
  }
  for (int k = 1; k <= 5; ++k) {
    const double want[] = {.5, .6875, .828125, .93359375, 1};
    EXPECT_NEAR(
        SolveTransport(OutputDistribution{.25, .75}, OutputDistribution{.75, .25}, k).acceptance,
        want[k - 1], kSolverTolerance);
  }
}

TEST(OptimalPlan, IsCouplingOfDrawsAndTarget) {
  for (const Rows& rows : RandomRows()) {
    const TransportPlan plan = SolveTransport(rows.p, rows.q, rows.k);
    const size_t vocab = rows.p.size();
    OutputDistribution token(vocab, 0.0);
    double among = 0;
    for (size_t tuple = 0; tuple < plan.mass.size(); ++tuple) {
      double want = 1, sum = 0;
      std::vector<bool> drawn(vocab, false);
      size_t digits = tuple;
      for (int i = 0; i < rows.k; ++i, digits /= vocab) {
        want *= rows.q[digits % vocab];
        drawn[digits % vocab] = true;
      }
      for (size_t y = 0; y < vocab; ++y) {
        const double mass = plan.mass[tuple][y];
        EXPECT_GE(mass, -kSolverTolerance) << rows.name;
        sum += mass;
        token[y] += mass;
        if (drawn[y]) among += mass;
      }
      EXPECT_NEAR(sum, want, kSolverTolerance) << rows.name;
    }
    EXPECT_NEAR(among, plan.acceptance, kSolverTolerance) << rows.name;
    EXPECT_LE(MaxError(token, rows.p), kSolverTolerance) << rows.name;
  }
}

TEST(OptimalPlan, IsBeatenByNoRule) {
  double spectr = 0, multiround = 0, several = 0, optimum = 0;
  for (const Rows& rows : RandomRows()) {
    const EnumeratedPair pair = OneRow(rows.p, rows.q);
    const double alpha = SolveTransport(rows.p, rows.q, rows.k).acceptance;
    for (const Rule rule : {Rule::kSpecTr, Rule::kMultiRound, Rule::kMultiPathBlock}) {
      EXPECT_LE(Accepted(rule, pair, Sequences(rows.k, 1)), alpha + kSolverTolerance)
          << RuleName(rule) << ", " << rows.name;
    }
    EXPECT_GE(Accepted(Rule::kSpecTr, pair, Sequences(rows.k, 1)),
              (1 - Power(1 - 1.0 / rows.k, rows.k)) * alpha - kSolverTolerance)
        << rows.name;
    spectr += Accepted(Rule::kSpecTr, pair, Sequences(rows.k, 1));
    multiround += Accepted(Rule::kMultiRound, pair, Sequences(rows.k, 1));
    several += Accepted(Rule::kMultiPathBlock, pair, Sequences(rows.k, 1));
    optimum += alpha;
  }
  EXPECT_GT(spectr, multiround);
  EXPECT_GT(several, spectr);
  EXPECT_GT(optimum, several);
}

// Pairs of two or three tokens, some with zeros.
std::vector<EnumeratedPair> RandomPairs(int count) {
  std::vector<EnumeratedPair> pairs;
  for (int i = 0; i < count; ++i) {
    const int vocab = 2 + i % 2;
    const auto seed = static_cast<uint64_t>(900 + i);
    const double zeros = i % 5 == 4 ? 0.3 : 0;
    pairs.push_back({vocab, RandomModel(vocab, seed, zeros), RandomModel(vocab, ~seed, zeros)});
  }
  return pairs;
}

// Theorem 2 of Sun et al. 2025: for a single sequence, block verification is optimal.
TEST(MostAccepted, OneSequenceEqualsBlockVerification) {
  for (const EnumeratedPair& pair : RandomPairs(12)) {
    for (int g = 1; g <= 3; ++g) {
      EXPECT_NEAR(MostAccepted(pair, 1, g), Accepted(Rule::kBlock, pair, Sequences(1, g)),
                  kSolverTolerance)
          << g;
    }
  }
  EXPECT_NEAR(MostAccepted(FourTokens(), 1, 3), 5001. / 3200, kSolverTolerance);
}

TEST(MostAccepted, EqualsOptimalPlan) {
  for (const EnumeratedPair& pair : RandomPairs(8)) {
    for (const int k : {2, 3}) {
      EXPECT_NEAR(MostAccepted(pair, k, 1),
                  SolveTransport(pair.target({}), pair.draft({}), k).acceptance, kSolverTolerance)
          << k;
    }
  }
}

TEST(MostAccepted, RanksOptimumMultiPathSpecTr) {
  for (const auto& [length, k] : {std::pair(2, 2), {3, 2}, {2, 3}}) {
    double most = 0, several = 0, spectr = 0;
    for (const EnumeratedPair& pair : RandomPairs(10)) {
      const double optimum = MostAccepted(pair, k, length);
      const double multipath = Accepted(Rule::kMultiPathBlock, pair, Sequences(k, length));
      const double by_token = Accepted(Rule::kSpecTr, pair, Sequences(k, length));
      EXPECT_LE(multipath, optimum + kSolverTolerance) << length << " " << k;
      EXPECT_LE(by_token, optimum + kSolverTolerance) << length << " " << k;
      most += optimum;
      several += multipath;
      spectr += by_token;
    }
    EXPECT_GT(several, spectr) << length << " " << k;
    EXPECT_GT(several, 0.93 * most) << length << " " << k;
  }
}

}  // namespace
}  // namespace outrider::testing
