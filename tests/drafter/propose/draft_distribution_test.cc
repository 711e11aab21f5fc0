// What is sampled is what is sent: draft tokens have the distributions that are sent with them, and
// are independent of one another.
#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "tests/drafter/propose/loop_fixture.h"
#include "tests/support/statistics.h"

namespace outrider {
namespace {

// Tokens counted against the distribution from which they were reportedly sampled.
struct Group {
  DraftDistribution distribution = {};
  std::map<TokenId, int64_t> counts = {};
  int draws = 0;

  void Add(const DraftDistribution& drawn_from, TokenId token) {
    if (draws++ == 0) distribution = drawn_from;
    ASSERT_EQ(distribution.ids, drawn_from.ids);
    ASSERT_EQ(distribution.weights, drawn_from.weights);
    ++counts[token];
  }
};

// Pairs of tokens counted against the product of their distributions.
struct Pair {
  DraftDistribution first = {};
  DraftDistribution second = {};
  std::map<std::pair<TokenId, TokenId>, int64_t> counts = {};
  int draws = 0;

  void Add(const DraftDistribution& a, TokenId x, const DraftDistribution& b, TokenId y) {
    if (draws++ == 0) {
      first = a;
      second = b;
    }
    ++counts[{x, y}];
  }
};

double Share(const DraftDistribution& distribution, size_t i) {
  return static_cast<double>(distribution.weights[i]) / kDraftWeightTotal;
}

void ExpectDistribution(const Group& group) {
  std::vector<int64_t> counts;
  std::vector<double> distribution;
  int64_t seen = 0;
  for (size_t i = 0; i < group.distribution.ids.size(); ++i) {
    const auto found = group.counts.find(group.distribution.ids[i]);
    counts.push_back(found == group.counts.end() ? 0 : found->second);
    distribution.push_back(Share(group.distribution, i));
    seen += counts.back();
  }
  EXPECT_EQ(seen, group.draws) << "a token outside of its row";
  EXPECT_GT(testing::ChiSquarePValue(counts, distribution), testing::kFalseAlarm);
}

void ExpectIndependent(const Pair& pair) {
  std::vector<int64_t> counts;
  std::vector<double> distribution;
  for (size_t i = 0; i < pair.first.ids.size(); ++i) {
    for (size_t j = 0; j < pair.second.ids.size(); ++j) {
      const auto found = pair.counts.find({pair.first.ids[i], pair.second.ids[j]});
      counts.push_back(found == pair.counts.end() ? 0 : found->second);
      distribution.push_back(Share(pair.first, i) * Share(pair.second, j));
    }
  }
  EXPECT_GT(testing::ChiSquarePValue(counts, distribution), testing::kFalseAlarm);
}

// Checks the groups of at least `draws` draws and returns how many these are.
template <class Key, class Counted>
int CheckLargeGroups(const std::map<Key, Counted>& groups, int draws,
                     void (*expect)(const Counted&)) {
  int tested = 0;
  for (const auto& [key, group] : groups) {
    if (group.draws < draws) continue;
    SCOPED_TRACE(::testing::PrintToString(key));
    expect(group);
    ++tested;
  }
  return tested;
}

class DraftSamplingTest : public LoopTest {
 protected:
  static constexpr uint32_t kRounds = 20000;

  // A token of a draft, the token before it, and the distribution from which it was sampled.
  struct Drawn {
    TokenId token;
    TokenId before;
    DraftDistribution distribution;
  };
  using Depths = std::vector<std::vector<Drawn>>;  // [depth][token, in draft order]

  // Drafts the same position in kRounds rounds and passes the tokens of each to `visit`. The model
  // is a Markov chain of order 1: a row depends only on the previous token, so that rounds can be
  // pooled by that token, but never by the length that a draft happened to have.
  void Draft(const DraftShape& shape, const std::function<void(const Depths&)>& visit,
             const StopRule& stop = {}) {
    Start({.vocab_size = 12, .order = 1}, {}, 12);
    SessionOpening session = Opening(1, shape);
    session.sampling = {.temperature = 0.8f, .top_k = 9, .top_p = 0.95f};
    session.plan.stop = stop;
    Push(session);
    for (uint32_t round = 1; round <= kRounds; ++round) {
      StepToRest();
      std::vector<DraftPart> parts = link_->TakeDrafts();
      ASSERT_FALSE(parts.empty());
      std::vector<TokenId> tokens;
      std::vector<int> parents;
      for (const DraftPart& part : parts) {
        for (size_t i = 0; i < part.chunk.tokens.size(); ++i) {
          parents.push_back(part.chunk.parents.empty() ? static_cast<int>(tokens.size())
                                                       : part.chunk.parents[i]);
          tokens.push_back(part.chunk.tokens[i]);
        }
      }
      const DraftTree tree = Assemble(std::move(parts));
      Depths depths(static_cast<size_t>(shape.length));
      for (size_t i = 0; i < tokens.size(); ++i) {
        depths[static_cast<size_t>(tree.depth(parents[i]))].push_back(
            {.token = tokens[i],
             .before = parents[i] == 0 ? session.tokens.back() : tree.token(parents[i]),
             .distribution = tree.distribution(parents[i])});
      }
      visit(depths);
      if (HasFailure()) return;
      Push(SessionVerdict{.session = 1,
                          .round = round,
                          .node = 0,
                          .next = {},
                          .plan = {.round = round + 1, .shape = shape, .stop = stop}});
    }
  }

  // One sequence's tokens by depth and the token before.
  struct Chains {
    std::map<std::pair<size_t, TokenId>, Group> groups;
    int64_t missing = 0;  // depths that were not drafted
  };
  Chains DraftChains(int length, const StopRule& stop = {}) {
    Chains chains;
    Draft(
        Sequences(1, length),
        [&chains](const Depths& depths) {
          for (size_t depth = 0; depth < depths.size(); ++depth) {
            ASSERT_LE(depths[depth].size(), 1u);
            chains.missing += depths[depth].empty() ? 1 : 0;
            for (const Drawn& drawn : depths[depth]) {
              chains.groups[{depth, drawn.before}].Add(drawn.distribution, drawn.token);
            }
          }
        },
        stop);
    return chains;
  }
};

TEST_F(DraftSamplingTest, DraftTokensFollowSentRows) {
  const Chains chains = DraftChains(3);
  EXPECT_EQ(chains.missing, 0);
  EXPECT_GT(CheckLargeGroups(chains.groups, 500, ExpectDistribution), 10);
}

// The verifier has other ids for nine of the twelve tokens and lacks the others.
TEST_F(DraftSamplingTest, TranslatedTokensFollowSentRows) {
  vocabulary_ = FallingVocabulary(12, 9);
  const Chains chains = DraftChains(3);
  EXPECT_EQ(chains.missing, 0);
  EXPECT_GT(CheckLargeGroups(chains.groups, 500, ExpectDistribution), 8);
}

// Whether a token is drafted is decided before it is sampled: those that are follow their rows.
TEST_F(DraftSamplingTest, StopRulesKeepDraftDistribution) {
  for (const StopRule& stop : {StopRule{.kind = StopRule::Kind::kConfidence, .threshold = 0.3f},
                               StopRule{.kind = StopRule::Kind::kEntropy, .threshold = 1.8f}}) {
    const Chains chains = DraftChains(4, stop);
    EXPECT_GT(CheckLargeGroups(chains.groups, 500, ExpectDistribution), 6);
    EXPECT_GT(chains.missing, kRounds / 4);
    EXPECT_LT(chains.missing, 2 * kRounds);
  }
}

// Every token of a shape, by its index within its depth, follows its row; and any two of a depth
// after the same tokens are independent, whether they share a node or not.
TEST_F(DraftSamplingTest, SequencesAreDrawnIndependently) {
  for (const DraftShape& shape : {Sequences(3, 2), DraftShape{.length = 2, .branching = {2, 2}}}) {
    std::map<std::tuple<size_t, size_t, TokenId>, Group> groups;
    std::map<std::tuple<size_t, size_t, size_t, TokenId, TokenId>, Pair> pairs;
    Draft(shape, [&](const Depths& depths) {
      for (size_t depth = 0; depth < depths.size(); ++depth) {
        const std::vector<Drawn>& draws = depths[depth];
        for (size_t i = 0; i < draws.size(); ++i) {
          groups[{depth, i, draws[i].before}].Add(draws[i].distribution, draws[i].token);
          for (size_t j = 0; j < i; ++j) {
            pairs[{depth, j, i, draws[j].before, draws[i].before}].Add(
                draws[j].distribution, draws[j].token, draws[i].distribution, draws[i].token);
          }
        }
      }
    });
    if (HasFailure()) return;
    EXPECT_GT(CheckLargeGroups(groups, 500, ExpectDistribution), 20);
    EXPECT_GT(CheckLargeGroups(pairs, 1000, ExpectIndependent), 6);
  }
}

// A sequence's next token does not depend on the tokens of another one, at this depth or before.
TEST_F(DraftSamplingTest, DepthsOfDifferentSequencesAreIndependent) {
  std::map<TokenId, Pair> pairs;  // by the first sequence's first token
  Draft(Sequences(2, 2), [&pairs](const Depths& depths) {
    const Drawn& next = depths[1][0];
    const Drawn& other = depths[0][1];
    pairs[next.before].Add(next.distribution, next.token, other.distribution, other.token);
  });
  EXPECT_GT(CheckLargeGroups(pairs, 1000, ExpectIndependent), 2);
}

TEST_F(DraftSamplingTest, RowsKeepTheVerifiersLimits) {
  limits_ = {.mass = 1.f, .max_entries = 3};
  Start();
  for (const int count : {1, 4}) {
    Push(Opening(1, Sequences(count, 8)));
    const DraftTree draft = TheDraft();
    EXPECT_TRUE(Validate(draft, Sequences(count, 8), /*with_distributions=*/true, kVocab).ok());
    for (int node = 0; node <= draft.size(); ++node) {
      if (!draft.draws(node).empty()) {
        EXPECT_EQ(draft.distribution(node).ids.size(), 3u);
      }
    }
  }
}

}  // namespace
}  // namespace outrider
