// Plausible rules that are not lossless, with their exact errors, which the exact tests must
// detect. For blocks: Sun et al. 2025; for several candidates: "SpecTr".
#include <gtest/gtest.h>

#include "tests/exactness/tolerance.h"
#include "tests/support/toy_pair.h"

namespace outrider::testing {
namespace {

// Block verification of one sequence with one change.
struct BlockMistake {
  bool shared_coin = false;     // one random number for all positions
  bool token_residual = false;  // the residual of token verification, without p_tau
  bool stop_at_first = false;   // the first failure ends the walk
  bool row_before = false;      // row i - 1 instead of row i in h_i
};

Emitter MistakenBlock(const BlockMistake& mistake) {
  return EmitterOfCode([mistake](EnumeratedRound& round, EnumeratingCoins& coins) {
    std::vector<int> nodes = {DraftTree::kRoot};
    while (!round.draws(nodes.back()).empty()) nodes.push_back(round.draws(nodes.back())[0]);
    const size_t g = nodes.size() - 1;
    std::vector<double> p = {1};
    size_t tau = 0;
    for (size_t i = 1; i <= g; ++i) {
      p.push_back(AcceptedMass(p[i - 1], round.target(nodes[i - 1]), round.draft(nodes[i - 1]),
                               round.token(nodes[i])));
      const int row = nodes[mistake.row_before ? i - 1 : i];
      const double h =
          i == g ? p[i]
                 : InnerAcceptance(p[i], ResidualMass(p[i], round.target(row), round.draft(row)));
      const int depth = mistake.shared_coin ? 0 : static_cast<int>(i) - 1;
      if (coins.Flip(Purpose::kAccept, depth, 0, h)) {
        tau = i;
      } else if (mistake.stop_at_first) {
        break;
      }
    }
    if (tau == g) return StopAtLeaf(round, nodes[g], coins);
    return StopAt(round, nodes[tau], mistake.token_residual ? 1 : p[tau], round.draft(nodes[tau]),
                  coins);
  });
}

double LargestError(const Emitter& rule) {
  const DraftShape shape = Sequences(1, 3);
  return MaxError(GenerationDistribution(rule, FourTokens(), std::span(&shape, 1), 4),
                  TargetDistribution(FourTokens(), 4));
}

TEST(MistakenBlock, HasDerivedErrorOnToy) {
  EXPECT_NEAR(LargestError(MistakenBlock({})), 0, kTolerance);
  EXPECT_NEAR(LargestError(MistakenBlock({.shared_coin = true})), 31. / 8960, kTolerance);
  EXPECT_NEAR(LargestError(MistakenBlock({.token_residual = true})), 1. / 720, kTolerance);
  EXPECT_NEAR(LargestError(MistakenBlock({.stop_at_first = true})), 13. / 840, kTolerance);
  EXPECT_NEAR(LargestError(MistakenBlock({.row_before = true})), 1. / 80, kTolerance);
}

// Dropping a draft token after looking at it.
TEST(MistakenBlock, DroppingTokenOnSightIsLossy) {
  const Emitter rule = EmitterOfCode([](EnumeratedRound& round, EnumeratingCoins& coins) {
    const int child = round.draws(DraftTree::kRoot)[0];
    if (round.token(child) == 0) return StopAtLeaf(round, DraftTree::kRoot, coins);
    return Verify(Rule::kToken, round, coins);
  });
  EXPECT_GT(RoundError(rule, ThreeTokens(), Sequences(1, 1)), 0.01);
}

// Candidates after the accepted prefix, with the rule's value for their number.
struct Candidates {
  std::vector<int> nodes;  // children in the order in which they are tried
  int k = 0;
};
using ChooseCandidates =
    std::function<Candidates(EnumeratedRound&, int node, const std::vector<RatioEntry>&)>;

// k-SEQ over the candidates that `choose` selects among a node's children.
Emitter KSeqOver(ChooseCandidates choose) {
  return EmitterOfCode([choose](EnumeratedRound& round, EnumeratingCoins& coins) {
    int node = DraftTree::kRoot;
    while (!round.draws(node).empty()) {
      const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
      const Candidates candidates = choose(round, node, entries);
      const KSeq kseq = SolveKSeq(entries.data(), static_cast<int>(entries.size()), candidates.k);
      int chosen = -1;
      for (size_t i = 0; i < candidates.nodes.size() && chosen < 0; ++i) {
        const RatioEntry* e = FindEntry(entries, round.token(candidates.nodes[i]));
        if (coins.Flip(Purpose::kTrial, round.depth(node), static_cast<int>(i),
                       kseq.Trial(e->p, e->q))) {
          chosen = candidates.nodes[i];
        }
      }
      if (chosen < 0) {
        OwnedRow accepted = RowOver(entries);
        for (size_t i = 0; i < entries.size(); ++i) {
          accepted.weights[i] = kseq.gain * kseq.Mass(entries[i].p, entries[i].q);
        }
        const Verdict stop = StopAt(round, node, 1, accepted.row(), coins);
        chosen = round.tree().Child(node, stop.next);
        if (chosen < 0) return stop;
      }
      node = chosen;
    }
    return StopAtLeaf(round, node, coins);
  });
}

Candidates AsDrawn(EnumeratedRound& round, int node, const std::vector<RatioEntry>&) {
  const std::span<const int32_t> draws = round.draws(node);
  return {{draws.begin(), draws.end()}, static_cast<int>(draws.size())};
}

struct Error {
  int k, length;
  double total_variation;
};

void ExpectErrors(const Emitter& rule, const std::vector<Error>& errors) {
  for (const Error& e : errors) {
    EXPECT_NEAR(RoundError(rule, ThreeTokens(), Sequences(e.k, e.length)), e.total_variation,
                5.1e-5)
        << e.k << " sequences of " << e.length;
  }
}

TEST(MistakenCandidates, AreLosslessWithoutAMistake) {
  ExpectErrors(KSeqOver(AsDrawn), {{2, 1, 0}, {3, 1, 0}, {2, 2, 0}, {3, 2, 0}});
}

TEST(MistakenCandidates, DroppingDuplicatesIsLossy) {
  const Emitter rule =
      KSeqOver([](EnumeratedRound& round, int node, const std::vector<RatioEntry>& entries) {
        Candidates all = AsDrawn(round, node, entries), distinct;
        for (const int child : all.nodes) {
          if (std::count(distinct.nodes.begin(), distinct.nodes.end(), child) == 0) {
            distinct.nodes.push_back(child);
          }
        }
        distinct.k = static_cast<int>(distinct.nodes.size());
        return distinct;
      });
  ExpectErrors(rule, {{2, 1, .0184}, {3, 1, .0330}, {2, 2, .0189}, {3, 2, .0335}});
}

TEST(MistakenCandidates, SortedByRatioAreLossy) {
  const Emitter rule =
      KSeqOver([](EnumeratedRound& round, int node, const std::vector<RatioEntry>& entries) {
        Candidates candidates = AsDrawn(round, node, entries);
        const auto rank = [&](int child) { return FindEntry(entries, round.token(child)); };
        std::stable_sort(candidates.nodes.begin(), candidates.nodes.end(),
                         [&](int a, int b) { return rank(a) < rank(b); });
        return candidates;
      });
  ExpectErrors(rule, {{2, 1, .0686}, {3, 1, .1295}, {2, 2, .0695}, {3, 2, .1295}});
}

TEST(MistakenCandidates, RootCountBelowRootIsLossy) {
  for (const Error& e : std::vector<Error>{{2, 1, 0}, {3, 1, 0}, {2, 2, .0599}, {3, 2, .1189}}) {
    const Emitter rule =
        KSeqOver([k = e.k](EnumeratedRound& round, int node, const std::vector<RatioEntry>& all) {
          Candidates candidates = AsDrawn(round, node, all);
          candidates.k = k;
          return candidates;
        });
    ExpectErrors(rule, {e});
  }
}

// Algorithm 3 over the leaves of a branching tree: first tokens repeat as often as they have
// leaves.
TEST(MistakenCandidates, LeavesAsCandidatesAreLossy) {
  const struct {
    std::vector<int> branching;
    double total_variation;
  } cases[] = {{{1, 2}, .0369}, {{2, 2}, .0604}, {{1, 3}, .0656}};
  for (const auto& c : cases) {
    const DraftShape shape{.length = 2, .branching = c.branching};
    const Emitter rule =
        KSeqOver([&](EnumeratedRound& round, int node, const std::vector<RatioEntry>& entries) {
          const Candidates draws = AsDrawn(round, node, entries);
          const int leaves = round.depth(node) == 0 ? shape.branching[1] : 1;
          Candidates repeated{{}, draws.k * leaves};
          for (const int child : draws.nodes) {
            repeated.nodes.insert(repeated.nodes.end(), static_cast<size_t>(leaves), child);
          }
          return repeated;
        });
    EXPECT_NEAR(RoundError(rule, ThreeTokens(), shape), c.total_variation, 5.1e-5);
    EXPECT_LE(RoundError(KSeqOver(AsDrawn), ThreeTokens(), shape), kTolerance);
  }
}

// Token verification of each candidate in turn, with its residual once all have failed.
Verdict VerifyNaively(EnumeratedRound& round, EnumeratingCoins& coins) {
  int node = DraftTree::kRoot;
  while (!round.draws(node).empty()) {
    const std::span<const int32_t> draws = round.draws(node);
    int chosen = -1;
    for (size_t i = 0; i < draws.size() && chosen < 0; ++i) {
      const double accept =
          AcceptedMass(1, round.target(node), round.draft(node), round.token(draws[i]));
      if (coins.Flip(Purpose::kTrial, round.depth(node), static_cast<int>(i), accept)) {
        chosen = draws[i];
      }
    }
    if (chosen < 0) {
      const Verdict stop = StopAt(round, node, 1, round.draft(node), coins);
      chosen = round.tree().Child(node, stop.next);
      if (chosen < 0) return stop;
    }
    node = chosen;
  }
  return StopAtLeaf(round, node, coins);
}

TEST(NaiveRejection, IsLossy) {
  ExpectErrors(EmitterOfCode(VerifyNaively),
               {{1, 2, 0}, {2, 1, .15}, {3, 1, .195}, {2, 2, .1548}, {3, 2, .2101}});
  // A certain draft against a fair coin: every draft is the same, but each gets a separate chance.
  const OutputDistribution sure = {0, 1}, fair = {.5, .5};
  const EnumeratedPair pair{2, Chain({fair, fair, fair}), Chain({sure, sure, sure})};
  for (const int k : {2, 3, 4}) {
    const DraftShape shape = Sequences(k, 1);
    const OutputDistribution distribution =
        GenerationDistribution(EmitterOfCode(VerifyNaively), pair, std::span(&shape, 1), 1);
    EXPECT_NEAR(distribution[1], 1 - std::pow(.5, k), kTolerance) << k;
  }
}

// Multi-path block verification with the draft distribution instead of the chosen token's.
TEST(MistakenPath, UsingDraftDistributionIsLossy) {
  const auto rule = [](bool skewed) {
    return EmitterOfCode([skewed](EnumeratedRound& round, EnumeratingCoins& coins) {
      std::vector<int> nodes = {DraftTree::kRoot};
      std::vector<OwnedRow> distributions;
      while (!round.draws(nodes.back()).empty()) {
        const int node = nodes.back();
        const auto k = static_cast<int>(round.draws(node).size());
        const std::vector<RatioEntry> entries = RankEntries(round.target(node), round.draft(node));
        PathChoice choice = ChooseMix(entries, k);
        nodes.push_back(ChooseDraw(round, node, choice, entries, coins));
        if (!skewed) {
          for (size_t i = 0; i < entries.size(); ++i) choice.distribution.weights[i] = entries[i].q;
        }
        distributions.push_back(std::move(choice.distribution));
      }
      std::vector<SparseRow<double>> rows;
      for (const OwnedRow& distribution : distributions) rows.push_back(distribution.row());
      return VerifyPath(round, std::span<const int>(nodes),
                        std::span<const SparseRow<double>>(rows), coins);
    });
  };
  for (const DraftShape& shape : {Sequences(2, 1), Sequences(2, 2), Sequences(3, 2)}) {
    EXPECT_LE(RoundError(rule(true), ThreeTokens(), shape), kTolerance);
    EXPECT_GT(RoundError(rule(false), ThreeTokens(), shape), 0.01);
  }
}

}  // namespace
}  // namespace outrider::testing
