#include "drafter/propose/draft_tree_builder.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/math/coins.h"
#include "common/spec/race.h"
#include "common/spec/sequence_sampling.h"
#include "tests/drafter/propose/row_picker.h"
#include "tests/support/sequence_rows.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::RowPicker;
using ::testing::SizeIs;

constexpr int kVocab = 6;

// Logits after a path: any function of it would do.
std::vector<float> Logits(std::span<const TokenId> path) {
  std::vector<float> row(kVocab);
  size_t hash = 17;
  for (const TokenId token : path) hash = hash * 31 + static_cast<size_t>(token) + 1;
  for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(hash * (i + 3) % 13) * 0.15f;
  return row;
}

// The chunks of a plan's draft, assembled in draft order.
struct Grown {
  DraftTree tree;
  std::vector<DraftChunk> chunks;  // one per depth
};

Grown Grow(const DraftTask& task, const SamplingParams& sampling = {}) {
  Grown grown;
  SequenceSampling sequence(sampling, kVocab, kVocab);
  DraftTreeBuilder builder(task);
  while (!builder.frontier().empty()) {
    std::vector<float> rows;
    for (const int32_t node : builder.frontier()) {
      const std::vector<float> row = Logits(builder.tree().Path(node));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    builder.DrawDepth(RowPicker().Pick(builder, sequence, rows), {});
    grown.chunks.push_back(builder.TakeChunk());
  }
  grown.tree = builder.tree();
  return grown;
}

TEST(DraftTreeBuilder, EachSequenceHasItsOwnCoins) {
  const DraftTask task{.shape = Sequences(5, 4), .seed = 9, .round = 3};
  const Grown grown = Grow(task);
  ASSERT_THAT(grown.chunks, SizeIs(4));
  for (uint32_t sequence = 0; sequence < 5; ++sequence) {
    SequenceSampling sampling({}, kVocab, kVocab);
    std::vector<TokenId> path;
    for (uint32_t depth = 0; depth < 4; ++depth) {
      std::vector<float> row = Logits(path);
      MakeDistribution(sampling, row, path);
      path.push_back(SampleDraftDistribution(MakeDraftDistribution(row, task.distribution_limits),
                                             Coin(9, 3, depth, Purpose::kDraftToken, sequence)));
      EXPECT_EQ(grown.chunks[depth].tokens.at(sequence), path.back());
    }
  }
}

// Tokens are sampled from the integers that are sent, not from the row before rounding: 43690 equal
// probabilities are 1.5 of 65536 each, so the lower half of the ids is sent, and must be sampled,
// twice as often as the upper one.
TEST(DraftTreeBuilder, DrawsComeFromTheRoundedRow) {
  constexpr int kWide = 43690, kDraws = 2000;
  DraftTreeBuilder builder({.shape = Sequences(kDraws, 1),
                            .seed = 4,
                            .round = 1,
                            .distribution_limits = {.mass = 1.f, .max_entries = kWide}});
  SequenceSampling sampling({}, kWide, kWide);
  std::vector<float> row(kWide, 0.f);
  builder.DrawDepth(RowPicker().Pick(builder, sampling, row), {});
  const DraftDistribution distribution = builder.TakeChunk().distributions.at(0);
  double sent = 0;
  for (size_t i = 0; i < distribution.ids.size(); ++i)
    sent += distribution.ids[i] < kWide / 2 ? distribution.weights[i] : 0;
  EXPECT_NEAR(sent / kDraftWeightTotal, 2. / 3, 1e-4);
  int low = 0;
  for (const int32_t node : builder.tree().draws(DraftTree::kRoot)) {
    low += builder.tree().token(node) < kWide / 2;
  }
  // Five standard deviations of 2000 samples are 0.053.
  EXPECT_NEAR(low / static_cast<double>(kDraws), 2. / 3, 0.053);
}

// And not from what the limits cut off: 500 samples of two tokens of six.
TEST(DraftTreeBuilder, DrawsComeFromTheCutRow) {
  const Grown grown = Grow({.shape = Sequences(500, 1),
                            .seed = 4,
                            .round = 1,
                            .distribution_limits = {.max_entries = 2}});
  const DraftDistribution& distribution = grown.chunks.at(0).distributions.at(0);
  ASSERT_THAT(distribution.ids, SizeIs(2));
  for (const TokenId token : grown.chunks[0].tokens) ASSERT_GT(Probability(distribution, token), 0);
}

TEST(DraftTreeBuilder, DuplicatesAndTheirOrderAreKept) {
  // Twelve samples of six tokens: some coincide.
  const Grown grown = Grow({.shape = Sequences(12, 3), .seed = 2, .round = 1});
  EXPECT_EQ(grown.tree.total_draws(), 36);
  ASSERT_THAT(grown.tree.draws(DraftTree::kRoot), SizeIs(12));
  std::vector<TokenId> first;
  for (const int32_t child : grown.tree.draws(DraftTree::kRoot)) {
    first.push_back(grown.tree.token(child));
  }
  EXPECT_EQ(first, grown.chunks[0].tokens);
  EXPECT_LE(grown.tree.size(), 6 + 12 + 12);
  // A node that was sampled n times is continued n times.
  std::vector<int> times(static_cast<size_t>(grown.tree.size()) + 1, 0);
  for (int node = 0; node <= grown.tree.size(); ++node) {
    for (const int32_t child : grown.tree.draws(node)) ++times[static_cast<size_t>(child)];
  }
  bool several = false;
  for (int node = 1; node <= grown.tree.size(); ++node) {
    if (grown.tree.depth(node) == 3) continue;
    several = several || times[static_cast<size_t>(node)] > 1;
    EXPECT_THAT(grown.tree.draws(node), SizeIs(times[static_cast<size_t>(node)]));
  }
  EXPECT_TRUE(several);
}

TEST(DraftTreeBuilder, DrawDescendsFromItsParentIndex) {
  const DraftShape shape{.length = 4, .branching = {2, 3, 2}};
  const Grown grown = Grow({.shape = shape, .seed = 6, .round = 1});
  ASSERT_THAT(grown.chunks, SizeIs(4));
  std::vector<int32_t> nodes = {DraftTree::kRoot};  // the nodes of the previous depth's tokens
  for (int depth = 0; depth < 4; ++depth) {
    const DraftChunk& chunk = grown.chunks[static_cast<size_t>(depth)];
    const auto draws = static_cast<size_t>(shape.draws(depth));
    ASSERT_EQ(chunk.tokens.size(), nodes.size() * draws);
    std::vector<int32_t> next;
    for (size_t i = 0; i < chunk.tokens.size(); ++i) {
      EXPECT_EQ(chunk.parents.at(i), nodes[i / draws]);
      next.push_back(grown.tree.Child(nodes[i / draws], chunk.tokens[i]));
    }
    nodes = next;
  }
}

// With its distributions.
DraftTree Rebuilt(const Grown& grown) {
  DraftTree tree;
  for (const DraftChunk& chunk : grown.chunks) EXPECT_TRUE(tree.Append(chunk).ok());
  return tree;
}

// Under a stop rule the draft is the one without it, cut: nothing is drafted after a token sampled
// from a row that stops, and every other token is unchanged.
TEST(DraftTreeBuilder, StopRuleEndsOnePath) {
  const StopRule stop{.kind = StopRule::Kind::kConfidence, .threshold = 0.245f};
  int stopped = 0, went_on = 0, mixed = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const DraftTask task{.shape = {.length = 4, .branching = {2, 1, 2}}, .seed = seed, .round = 1};
    DraftTask stopping = task;
    stopping.stop = stop;
    const DraftTree whole = Rebuilt(Grow(task)), cut = Rebuilt(Grow(stopping));
    ASSERT_FALSE(cut.empty());
    EXPECT_TRUE(Validate(cut, task.shape, /*with_distributions=*/true, kVocab).ok());
    std::vector<int> in_cut(static_cast<size_t>(whole.size()) + 1, -1);
    in_cut[0] = 0;
    int here = 0;
    for (int node = 0; node <= whole.size(); ++node) {
      const int twin = in_cut[static_cast<size_t>(node)];
      if (twin < 0 || whole.draws(node).empty()) continue;
      const bool ends = node > 0 && Stops(stop, whole.distribution(whole.parent(node)));
      if (ends) {
        EXPECT_THAT(cut.draws(twin), IsEmpty());
        ++stopped;
        here |= 1;
        continue;
      }
      ++went_on;
      here |= 2;
      ASSERT_EQ(cut.draws(twin).size(), whole.draws(node).size());
      for (size_t i = 0; i < whole.draws(node).size(); ++i) {
        const int child = whole.draws(node)[i], cut_child = cut.draws(twin)[i];
        EXPECT_EQ(cut.token(cut_child), whole.token(child));
        in_cut[static_cast<size_t>(child)] = cut_child;
      }
    }
    mixed += here == 3 ? 1 : 0;
  }
  EXPECT_GT(stopped, 50);
  EXPECT_GT(went_on, 100);
  EXPECT_GT(mixed, 30);
}

// 1 - prod of the head's predictions along each path against h; the root's own is ignored.
TEST(DraftTreeBuilder, HeadEndsPathOfLowProduct) {
  const auto depths = [](float h, const std::vector<float>& accepted) {
    DraftTreeBuilder builder({.shape = Sequences(1, 6),
                              .stop = {.kind = StopRule::Kind::kHead, .threshold = h},
                              .seed = 3,
                              .round = 1});
    SequenceSampling sampling({}, kVocab, kVocab);
    for (size_t depth = 0; !builder.frontier().empty(); ++depth) {
      std::vector<float> row = Logits(builder.tree().Path(builder.frontier()[0]));
      builder.DrawDepth(RowPicker().Pick(builder, sampling, row),
                        std::span(accepted).subspan(depth, 1));
    }
    return builder.depths();
  };
  const std::vector<float> sure(6, 1.f), even(6, 0.9f);
  EXPECT_EQ(depths(0.f, sure), 6);
  EXPECT_EQ(depths(0.3f, sure), 6);
  EXPECT_EQ(depths(0.3f, {0.f, 1.f, 1.f, 1.f, 1.f, 1.f}), 6);
  EXPECT_EQ(depths(0.3f, even), 5);  // 1 - 0.9^3 = 0.271, 1 - 0.9^4 = 0.344: four predictions count
  EXPECT_EQ(depths(0.05f, even), 2);
  EXPECT_EQ(depths(0.9f, {1.f, 0.f, 1.f, 1.f, 1.f, 1.f}), 2);
  EXPECT_EQ(depths(1.f, {1.f, 0.f, 0.f, 1.f, 1.f, 1.f}), 6);
  EXPECT_EQ(depths(0.9f, {1.f, 1.f, std::nanf(""), 1.f, 1.f, 1.f}), 3);
}

TEST(DraftTreeBuilder, HeadJudgesEachPathAlone) {
  DraftTreeBuilder builder({.shape = Sequences(8, 4),
                            .stop = {.kind = StopRule::Kind::kHead, .threshold = 0.5f},
                            .seed = 3,
                            .round = 1});
  SequenceSampling sampling({}, kVocab, kVocab);
  // Even tokens get a prediction of 0.9, others 0.4.
  while (!builder.frontier().empty()) {
    std::vector<float> rows, accepted;
    for (const int32_t node : builder.frontier()) {
      const std::vector<float> row = Logits(builder.tree().Path(node));
      rows.insert(rows.end(), row.begin(), row.end());
      accepted.push_back(builder.tree().token(node) % 2 == 0 ? 0.9f : 0.4f);
    }
    builder.DrawDepth(RowPicker().Pick(builder, sampling, rows), accepted);
  }
  int odd = 0, even = 0;
  const DraftTree& tree = builder.tree();
  for (int node = 1; node <= tree.size(); ++node) {
    // There is one more token after an odd one, and the path ends.
    bool odd_in_front = false;
    std::vector<TokenId> path = tree.Path(node);
    path.pop_back();
    for (const TokenId token : path) odd_in_front = odd_in_front || token % 2 != 0;
    if (tree.depth(node) == 4) continue;
    EXPECT_EQ(tree.draws(node).empty(), odd_in_front) << node;
    ++(odd_in_front ? odd : even);
  }
  EXPECT_GT(odd, 2);
  EXPECT_GT(even, 2);
}

TEST(DraftTreeBuilder, PartsOfAnyLengthRebuildTree) {
  for (const DraftShape& shape :
       {Sequences(1, 6), Sequences(4, 6), DraftShape{.length = 6, .branching = {2, 1, 3}}}) {
    for (uint64_t seed = 0; seed < 60; ++seed) {
      for (int depths = 1; depths <= 6; ++depths) {
        DraftTreeBuilder builder({.shape = shape, .seed = seed, .round = 1});
        SequenceSampling sampling({}, kVocab, kVocab);
        DraftTree rebuilt;
        while (!builder.frontier().empty()) {
          std::vector<float> rows;
          for (const int32_t node : builder.frontier()) {
            const std::vector<float> row = Logits(builder.tree().Path(node));
            rows.insert(rows.end(), row.begin(), row.end());
          }
          builder.DrawDepth(RowPicker().Pick(builder, sampling, rows), {});
          if (builder.depths() % depths != 0 && !builder.frontier().empty()) continue;
          DraftChunk chunk = builder.TakeChunk();
          EXPECT_EQ(chunk.more, !builder.frontier().empty());
          ASSERT_TRUE(rebuilt.Append(std::move(chunk)).ok());
        }
        // Rebuilt with its distributions: exactly what was requested, and the same nodes in the
        // same order.
        EXPECT_TRUE(Validate(rebuilt, shape, /*with_distributions=*/true, kVocab).ok());
        ASSERT_EQ(rebuilt.size(), builder.tree().size());
        for (int node = 0; node <= rebuilt.size(); ++node) {
          EXPECT_EQ(rebuilt.parent(node), builder.tree().parent(node));
          EXPECT_EQ(rebuilt.token(node), builder.tree().token(node));
          ASSERT_TRUE(std::ranges::equal(rebuilt.draws(node), builder.tree().draws(node)));
        }
      }
    }
  }
}

TEST(DraftTreeBuilder, SingleSequenceNamesNoParents) {
  DraftTask task{.shape = Sequences(1, 3), .seed = 1, .round = 1};
  for (const DraftChunk& chunk : Grow(task).chunks) EXPECT_THAT(chunk.parents, IsEmpty());
  task.shape = Sequences(2, 3);
  EXPECT_THAT(Grow(task).chunks[0].parents, ElementsAre(0, 0));
}

TEST(DraftTreeBuilder, ArgmaxDraftsAreDistinctTopTokens) {
  const Grown grown =
      Grow({.kind = DraftKind::kArgmax, .shape = {.length = 2, .branching = {3, 2}}},
           {.logit_bias = {{4, 50.f}, {1, -50.f}}});
  for (int node = 0; node <= grown.tree.size(); ++node) {
    if (grown.tree.depth(node) == 2) continue;
    std::vector<float> row = Logits(grown.tree.Path(node));
    row[4] += 50.f;
    row[1] -= 50.f;
    std::vector<TokenId> order(kVocab);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&row](TokenId a, TokenId b) {
      return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
    });
    const std::span<const int32_t> draws = grown.tree.draws(node);
    ASSERT_THAT(draws, SizeIs(node == 0 ? 3 : 2));
    for (size_t i = 0; i < draws.size(); ++i) EXPECT_EQ(grown.tree.token(draws[i]), order[i]);
  }
  for (const DraftChunk& chunk : grown.chunks) EXPECT_THAT(chunk.distributions, IsEmpty());
  // No more tokens than there are.
  const Grown all = Grow({.kind = DraftKind::kArgmax, .shape = Sequences(9, 1)});
  EXPECT_EQ(all.tree.size(), kVocab);
  EXPECT_TRUE(Validate(all.tree, Sequences(9, 1), /*with_distributions=*/false, kVocab).ok());
}

TEST(DraftTreeBuilder, RaceDraftsAreFirstToArrive) {
  constexpr int kPosition = 41;
  const SamplingParams sampling{.temperature = 0.7f, .top_k = 3};
  const Grown grown = Grow({.kind = DraftKind::kRace,
                            .shape = {.length = 3, .branching = {2, 4}},
                            .seed = 77,
                            .round = 5,
                            .position = kPosition},
                           sampling);
  for (int node = 0; node <= grown.tree.size(); ++node) {
    const int depth = grown.tree.depth(node);
    if (depth == 3) continue;
    SequenceSampling sequence(sampling, kVocab, kVocab);
    const std::vector<TokenId> path = grown.tree.Path(node);
    std::vector<float> row = Logits(path);
    MakeDistribution(sequence, row, path);
    std::vector<TokenId> tokens;
    for (const int32_t child : grown.tree.draws(node)) tokens.push_back(grown.tree.token(child));
    const int draws = depth == 0 ? 2 : depth == 1 ? 4 : 1;
    EXPECT_EQ(tokens, RaceWinners(row, draws, 77, static_cast<uint32_t>(kPosition + depth)));
    EXPECT_THAT(tokens, SizeIs(std::min(draws, 3)));  // top-k keeps three
  }
  for (const DraftChunk& chunk : grown.chunks) EXPECT_THAT(chunk.distributions, IsEmpty());
}

}  // namespace
}  // namespace outrider
