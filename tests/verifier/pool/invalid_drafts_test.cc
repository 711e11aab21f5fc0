// Drafts that nobody asked for or that break the rules close their stream, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/verifier/pool/pool_fixture.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

TEST_F(Pool, IgnoresDraftsThatCrossedMessages) {
  const auto link = JoinShown(1, Hello("a"));
  Open(1);
  Open(2);
  const DraftChunk part = OneToken(/*more=*/true);
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  Decide(1, 1);
  pool_.Close(2);
  consumer_.drafts.clear();
  // The outstanding parts: three of four depths of session 1, and session 2's four.
  for (int i = 0; i < 3; ++i) pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  for (int i = 0; i < 4; ++i) pool_.OnDrafts(1, {{.session = 2, .round = 1, .chunk = part}}, 0);
  pool_.OnDrafts(42, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_TRUE(consumer_.drafts.empty());
  EXPECT_TRUE(link->closed_with.ok());
  // The eighth was not requested.
  pool_.OnDrafts(1, {{.session = 2, .round = 1, .chunk = part}}, 0);
  EXPECT_EQ(link->closed_with.code(), Code::kInvalidArgument);
  EXPECT_THAT(link->closed_with.message(), HasSubstr("nobody asked for"));
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{1});
}

TEST_F(Pool, UnrequestedDraftsCloseTheStream) {
  const DraftChunk chunk = OneToken();
  const std::vector<DraftPart> floods = {
      {.session = 99, .round = 1, .chunk = chunk},  // a session that it never had
      {.session = 1, .round = 7, .chunk = chunk},   // a round that has not been planned yet
      {.session = 99, .round = 1, .chunk = {}},     // a refusal without a plan
      {.session = 2, .round = 1, .chunk = chunk},   // another drafter's session
  };
  const auto good = Join(1000, Hello("good"));
  Open(2);
  for (uint64_t id = 0; id < floods.size(); ++id) {
    const auto link = Join(id, Hello("bad"));
    Open(1);
    pool_.OnDrafts(id, {floods[id]}, 0);
    EXPECT_THAT(link->closed_with.message(), HasSubstr("nobody asked for")) << id;
    pool_.Close(1);
  }
  EXPECT_EQ(pool_.DrafterName(2), "good");
  EXPECT_TRUE(good->closed_with.ok());
  EXPECT_TRUE(consumer_.drafts.empty());
}

TEST_F(Pool, RefusesDraftOfFutureRound) {
  const auto link = Join(1, Hello("a"));
  Open(1);
  Open(2);
  pool_.Close(2);
  const DraftChunk chunk = OneToken();
  pool_.OnDrafts(1, {{.session = 1, .round = 2, .chunk = chunk}}, 0);
  EXPECT_THAT(link->closed_with.message(), HasSubstr("round 2"));
}

TEST_F(Pool, WholeDraftLeavesNothingToCross) {
  const auto link = Join(1, Hello("a"));
  Open(1);
  const DraftChunk chunk = OneToken();
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  Decide(1, 1);
  EXPECT_TRUE(link->closed_with.ok());
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = chunk}}, 0);
  EXPECT_FALSE(link->closed_with.ok());
}

struct BadDraft {
  const char* name;
  const char* words;  // of the error
  DraftChunk chunk;
};

class HostileDrafter : public Pool, public ::testing::WithParamInterface<BadDraft> {};

TEST_P(HostileDrafter, IsClosedAndHarmsNoOther) {
  const auto bad = Join(1, Hello("bad"));
  Open(1);
  const auto good = Join(2, Hello("good"));
  Open(2);
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = GetParam().chunk}}, 0);
  EXPECT_EQ(bad->closed_with.code(), Code::kInvalidArgument);
  EXPECT_THAT(bad->closed_with.message(), HasSubstr(GetParam().words));
  EXPECT_EQ(consumer_.lost, std::vector<uint64_t>{1});
  EXPECT_TRUE(consumer_.drafts.empty());
  EXPECT_TRUE(good->closed_with.ok());
  EXPECT_EQ(pool_.DrafterName(2), "good");
}

INSTANTIATE_TEST_SUITE_P(
    Pool, HostileDrafter,
    ::testing::Values(
        BadDraft{"TokenBeyondVocabulary",
                 "vocabulary",
                 {.tokens = {100}, .distributions = {OutputDistribution({100}, {65536})}}},
        BadDraft{"NegativeToken",
                 "vocabulary",
                 {.tokens = {-1}, .distributions = {OutputDistribution({-1}, {65536})}}},
        BadDraft{"WeightsAboveTheSum",
                 "sum",
                 {.tokens = {5}, .distributions = {OutputDistribution({5, 6}, {65536, 1})}}},
        BadDraft{"TokenOutsideItsDistribution",
                 "not among",
                 {.tokens = {5}, .distributions = {OutputDistribution({6}, {65536})}}},
        BadDraft{"TokenTwiceInDistribution",
                 "twice",
                 {.tokens = {5}, .distributions = {OutputDistribution({5, 5}, {65535, 1})}}},
        BadDraft{"NoDistribution", "no row", {.tokens = {5}, .distributions = {}}},
        BadDraft{
            "ManyDistributions",
            "rows for",
            {.tokens = {5}, .distributions = std::vector(2, OutputDistribution({5}, {65536}))}},
        BadDraft{"LongDraft",
                 "asked for length 4",
                 {.tokens = {5, 5, 5, 5, 5},
                  .distributions = std::vector(5, OutputDistribution({5}, {65536}))}},
        BadDraft{"ManySequences",
                 "2 draws, asked for 1",
                 {.tokens = {5, 5},
                  .parents = {0, 0},
                  .distributions = {OutputDistribution({5}, {65536})}}},
        BadDraft{
            "UnknownParent",
            "after node 9",
            {.tokens = {5}, .parents = {9}, .distributions = {OutputDistribution({5}, {65536})}}},
        BadDraft{"FewParents",
                 "1 parents for 2",
                 {.tokens = {5, 5},
                  .parents = {0},
                  .distributions = {OutputDistribution({5}, {65536})}}}),
    [](const ::testing::TestParamInfo<BadDraft>& test) { return test.param.name; });

// One token more or less would bias a rule that depends on the number at a prefix.
TEST_F(Pool, AcceptsExactlyThePlannedDraws) {
  const DraftDistribution distribution = OutputDistribution({5, 6}, {32768, 32768});
  const auto bad = Join(1, Hello("bad"));
  OpenShape(1, {.length = 2, .branching = {2}});
  pool_.OnDrafts(
      1, {{.session = 1, .round = 1, .chunk = {.tokens = {5}, .distributions = {distribution}}}},
      0);
  EXPECT_THAT(bad->closed_with.message(), HasSubstr("1 draws, asked for 2"));

  const auto good = Join(2, Hello("good"));
  OpenShape(1, {.length = 2, .branching = {2}});
  // Both sequences begin with 5: one node sampled twice, which must be continued twice.
  pool_.OnDrafts(2,
                 {{.session = 1,
                   .round = 1,
                   .chunk = {.tokens = {5, 5, 6, 5},
                             .parents = {0, 0, 1, 1},
                             .distributions = {distribution, distribution}}}},
                 0);
  EXPECT_TRUE(good->closed_with.ok()) << good->closed_with.ToString();
  EXPECT_EQ(consumer_.drafts[1].size(), 3);
  EXPECT_EQ(consumer_.drafts[1].total_draws(), 4);
}

TEST_F(Pool, JoinsPartsOfDraft) {
  const auto link = Join(1, Hello("a"));
  const DraftDistribution distribution = OutputDistribution({5, 6}, {32768, 32768});
  Open(1);
  DraftChunk part{.tokens = {5, 6}, .distributions = {distribution, distribution}, .more = true};
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_EQ(consumer_.drafts[1].Path(2), (std::vector<TokenId>{5, 6}));
  EXPECT_FALSE(consumer_.complete[1]);
  part.more = false;
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_EQ(consumer_.drafts[1].Path(4), (std::vector<TokenId>{5, 6, 5, 6}));
  EXPECT_TRUE(consumer_.complete[1]);
  EXPECT_TRUE(link->closed_with.ok());
  pool_.OnDrafts(1, {{.session = 1, .round = 1, .chunk = part}}, 0);
  EXPECT_THAT(link->closed_with.message(), HasSubstr("after the last one"));
}

TEST_F(Pool, GreedySessionsTakeNoRows) {
  const auto link = Join(1, Hello("a"));
  Open(1, 4, DraftKind::kArgmax);
  pool_.OnDrafts(1,
                 {{.session = 1,
                   .round = 1,
                   .chunk = {.tokens = {5}, .distributions = {OutputDistribution({5}, {65536})}}}},
                 0);
  EXPECT_EQ(link->closed_with.code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
