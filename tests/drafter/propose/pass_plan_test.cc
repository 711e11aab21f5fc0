#include "drafter/propose/pass_plan.h"

#include <gmock/gmock.h>

#include <utility>
#include <vector>

#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class PassPlanTest : public PartsTest {
 protected:
  // Session ids with their numbers of tokens.
  std::vector<std::pair<uint64_t, int>> Plan(const PassLimits& limits = {}) {
    std::vector<std::pair<uint64_t, int>> plan;
    for (const PassShare& share : PlanPass(parts_->sessions, limits)) {
      plan.emplace_back(share.held->id, share.tokens);
    }
    return plan;
  }
};

TEST_F(PassPlanTest, OldestPlanThenDraftsThenPrompts) {
  Build({}, {.total_pages = 1024});
  VerifierConnection& connection = Connect(1);
  const std::vector<TokenId> prompt(kCatchUpTokens + 1, 3);
  Hold(connection, 1, 1, prompt);
  Hold(connection, 2, 1, prompt);
  Hold(connection, 3, 1, {1, 2});
  EXPECT_THAT(Plan(), ElementsAre(Pair(1, 33), Pair(3, 2), Pair(2, 33)));
  EXPECT_TRUE(ReadsPrompt(PlanPass(parts_->sessions, {})));
  parts_->sessions.Discard(connection, 1);
  parts_->sessions.Discard(connection, 2);
  EXPECT_FALSE(ReadsPrompt(PlanPass(parts_->sessions, {})));
}

TEST_F(PassPlanTest, PromptsAreReadInChunks) {
  Build({}, {.total_pages = 1024});
  VerifierConnection& connection = Connect(1);
  for (uint64_t id = 1; id <= 3; ++id) Hold(connection, id, 1, std::vector<TokenId>(20, 3));
  const std::vector<PassShare> shares =
      PlanPass(parts_->sessions, {.tokens = 30, .session_tokens = 16});
  ASSERT_EQ(shares.size(), 2u);
  EXPECT_EQ(shares[0].tokens, 16);
  EXPECT_EQ(shares[1].tokens, 14);
  EXPECT_EQ(shares[0].logit_rows, 0) << "the prompt is not read to its end";
  EXPECT_THAT(Plan({.tokens = 20, .session_tokens = 20}), ElementsAre(Pair(1, 20)));
  EXPECT_EQ(PlanPass(parts_->sessions, {.tokens = 20, .session_tokens = 20})[0].logit_rows, 1);
}

TEST_F(PassPlanTest, TakesWholeDepthsOnly) {
  Build({.chunk_depths = 8});
  VerifierConnection& connection = Connect(1);
  Hold(connection, 1, 3, {1, 2});
  Hold(connection, Opening(2, Sequences(4, 3), {5, 6}));
  Hold(connection, 3, 3, {7, 8});
  RunPass();  // from here on they draft from their frontiers
  const int width = static_cast<int>(connection.sessions.at(2).mirror->session.frontier().size());
  ASSERT_GT(width, 1);
  EXPECT_THAT(Plan({.tokens = width}), ElementsAre(Pair(1, 1), Pair(3, 1)));
  EXPECT_THAT(Plan({.tokens = width + 1}), ElementsAre(Pair(1, 1), Pair(2, width)));
}

TEST_F(PassPlanTest, VerifiersTakeTurns) {
  Build();
  VerifierConnection& large = Connect(1);
  for (uint64_t id = 1; id <= 4; ++id) Hold(large, id, 1, {1});
  VerifierConnection& small = Connect(2);
  for (uint64_t id = 11; id <= 12; ++id) Hold(small, id, 1, {1});
  EXPECT_THAT(Plan({.tokens = 5}),
              ElementsAre(Pair(1, 1), Pair(11, 1), Pair(2, 1), Pair(12, 1), Pair(3, 1)));
}

TEST_F(PassPlanTest, AnsweredSessionsHaveNoShare) {
  Build();
  Hold(Connect(1), 1, 1);
  RunPass();
  EXPECT_THAT(Plan(), IsEmpty());
}

}  // namespace
}  // namespace outrider
