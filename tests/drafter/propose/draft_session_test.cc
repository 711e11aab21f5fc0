#include "drafter/propose/draft_session.h"

#include <gmock/gmock.h>

#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DraftSessionTest : public ::testing::Test {
 protected:
  DraftSession Make(int length) {
    OpenEvent open;
    open.tokens = {1, 2, 3};
    open.prompt_tokens = 2;
    open.sampling.temperature = 0.f;
    open.plan = {.round = 4, .length = length};
    Result<DraftSession> session = DraftSession::Create(open, &bounds_);
    EXPECT_TRUE(session.ok());
    return std::move(session).value();
  }

  // Feeds everything and drafts `token`.
  static bool DraftToken(DraftSession& session, TokenId token) {
    session.Fed(static_cast<int>(session.Missing().size()));
    std::vector<float> row(8, 0.f);
    row[static_cast<size_t>(token)] = 1.f;
    return session.DraftNext(row);
  }

  DraftBounds bounds_{.vocab_size = 8,
                      .allowed = 8,
                      .max_context = 100,
                      .max_draft_length = 16,
                      .eos_token_ids = {7},
                      .law_limits = {}};
};

TEST_F(DraftSessionTest, WantsItsTokensFedInOrder) {
  DraftSession session = Make(2);
  EXPECT_THAT(session.Missing(), ElementsAre(1, 2, 3));
  session.Fed(2);
  EXPECT_THAT(session.Missing(), ElementsAre(3));
  EXPECT_FALSE(DraftToken(session, 5));
  EXPECT_THAT(session.Missing(), ElementsAre(5));
  EXPECT_TRUE(DraftToken(session, 6));
  EXPECT_THAT(session.TakeDraft().tokens, ElementsAre(5, 6));
  EXPECT_FALSE(session.drafting());
}

TEST_F(DraftSessionTest, CountsTheKvOfAcceptedTokensOnly) {
  DraftSession session = Make(3);
  for (const TokenId token : {4, 5, 6}) DraftToken(session, token);
  EXPECT_EQ(session.kv_length(), 5);  // 1 2 3 4 5
  ASSERT_TRUE(session
                  .Apply({.session = 0,
                          .round = 4,
                          .accepted = 1,
                          .next = {2},
                          .plan = {.round = 5, .length = 1}})
                  .ok());
  EXPECT_EQ(session.kv_length(), 4);
  EXPECT_THAT(session.Missing(), ElementsAre(2));
  EXPECT_EQ(session.planned_length(), 5);
}

TEST_F(DraftSessionTest, ARefusedVerdictChangesNothing) {
  DraftSession session = Make(2);
  DraftToken(session, 4);
  DraftToken(session, 5);
  EXPECT_EQ(session
                .Apply({.session = 0,
                        .round = 4,
                        .accepted = 2,
                        .next = {1, 8},
                        .plan = {.round = 5, .length = 1}})
                .code(),
            Code::kInvalidArgument);
  EXPECT_EQ(session.length(), 5);
  EXPECT_EQ(session.plan().round, 4u);
  EXPECT_THAT(session.TakeDraft().tokens, ElementsAre(4, 5));
}

TEST_F(DraftSessionTest, EndsWithAnEndOfSequence) {
  DraftSession session = Make(5);
  EXPECT_FALSE(DraftToken(session, 4));
  EXPECT_TRUE(DraftToken(session, 7));
  const DraftPath path = session.TakeDraft();
  EXPECT_THAT(path.tokens, ElementsAre(4, 7));
  EXPECT_THAT(path.laws, IsEmpty());
}

}  // namespace
}  // namespace outrider
