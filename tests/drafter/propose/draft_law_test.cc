// What is sampled is what is sent: drafted tokens follow the rows that go with them.
#include <gmock/gmock.h>

#include <map>

#include "tests/drafter/propose/loop_fixture.h"
#include "tests/support/statistics.h"

namespace outrider {
namespace {

class DraftLawTest : public LoopTest {};

TEST_F(DraftLawTest, DraftTokensFollowTheRowsThatAreSent) {
  // A Markov chain of order 1: the row at depth i depends on draft token i - 1 alone, so that the
  // rounds of one session can be pooled by that token.
  Start({.vocab_size = 12, .order = 1}, {}, 12);
  OpenEvent session = Session(1, 3);
  session.sampling = {.temperature = 0.8f, .top_k = 9, .top_p = 0.95f};
  Push(session);

  struct Group {
    DraftLaw law = {};
    std::map<TokenId, int64_t> counts;
    int draws = 0;
  };
  // By depth and the token before; by position, never by how long a draft turned out.
  std::map<std::pair<size_t, TokenId>, Group> groups;
  constexpr uint32_t kRounds = 20000;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    const Draft draft = TheDraft();
    ASSERT_EQ(draft.paths.size(), 1u);
    const DraftPath& path = draft.paths[0];
    ASSERT_EQ(path.laws.size(), 3u);
    TokenId before = session.tokens.back();
    for (size_t depth = 0; depth < path.tokens.size(); ++depth) {
      Group& group = groups[{depth, before}];
      if (group.draws++ == 0) group.law = path.laws[depth];
      ASSERT_EQ(group.law.ids, path.laws[depth].ids);
      ASSERT_EQ(group.law.weights, path.laws[depth].weights);
      ++group.counts[path.tokens[depth]];
      before = path.tokens[depth];
    }
    // The same place again in a new round: the same rows, new coins.
    Push(SessionVerdict{.session = 1,
                        .round = round,
                        .accepted = 0,
                        .next = {},
                        .plan = {.round = round + 1, .length = 3}});
  }

  int tested = 0;
  for (const auto& [key, group] : groups) {
    if (group.draws < 500) continue;
    std::vector<int64_t> counts;
    std::vector<double> law;
    int64_t seen = 0;
    for (size_t i = 0; i < group.law.ids.size(); ++i) {
      const auto found = group.counts.find(group.law.ids[i]);
      counts.push_back(found == group.counts.end() ? 0 : found->second);
      law.push_back(static_cast<double>(group.law.weights[i]) / kDraftLawTotal);
      seen += counts.back();
    }
    EXPECT_EQ(seen, group.draws) << "a token outside of its row";
    EXPECT_GT(testing::ChiSquarePValue(counts, law), testing::kFalseAlarm)
        << "depth " << key.first << " behind token " << key.second;
    ++tested;
  }
  EXPECT_GT(tested, 10);
}

TEST_F(DraftLawTest, RowsKeepTheVerifiersLimits) {
  limits_ = {.mass = 1.f, .max_entries = 3};
  Start();
  Push(Session(1, 8));
  const Draft draft = TheDraft();
  ASSERT_EQ(draft.paths.size(), 1u);
  for (size_t i = 0; i < draft.paths[0].laws.size(); ++i) {
    const DraftLaw& law = draft.paths[0].laws[i];
    EXPECT_EQ(law.ids.size(), 3u);
    EXPECT_TRUE(Validate(law, draft.paths[0].tokens[i], kVocab).ok());
  }
}

}  // namespace
}  // namespace outrider
