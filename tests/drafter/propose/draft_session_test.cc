#include "drafter/propose/draft_session.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/drafter/propose/row_picker.h"
#include "tests/support/allocation_watch.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DraftSessionTest : public ::testing::Test {
 protected:
  DraftSession MakeSession(const DraftShape& shape) {
    SessionOpening open;
    open.tokens = {1, 2, 3};
    open.prompt_tokens = 2;
    open.kind = DraftKind::kArgmax;
    open.plan = {.round = 4, .shape = shape};
    Result<DraftSession> session = DraftSession::Create(open, &bounds_);
    EXPECT_TRUE(session.ok());
    return std::move(session).value();
  }

  // Runs the missing tokens and drafts a depth at which `tokens` are the most likely, in descending
  // order.
  static void Draw(DraftSession& session, const std::vector<TokenId>& tokens) {
    session.MarkFed(static_cast<int>(session.Missing().size()));
    std::vector<float> rows(8 * session.frontier().size(), 0.f);
    for (size_t row = 0; row < session.frontier().size(); ++row) {
      float logit = 10.f;
      for (const TokenId token : tokens) rows[8 * row + static_cast<size_t>(token)] = logit--;
    }
    session.DrawDepth(testing::RowPicker().Pick(session, rows), {});
  }

  static SessionVerdict Decision(int node, std::vector<TokenId> next) {
    return {.session = 0,
            .round = 4,
            .node = node,
            .next = std::move(next),
            .plan = {.round = 5, .shape = Sequences(1, 1)}};
  }

  DraftBounds bounds_{.vocab_size = 8,
                      .allowed = 8,
                      .max_context = 100,
                      .max_draft_length = 16,
                      .max_draft_tokens = 100,
                      .max_sequences = 10,
                      .eos_token_ids = {7},
                      .distribution_limits = {}};
};

// A token of the verifier's vocabulary can take a thousand of the drafter's.
TEST_F(DraftSessionTest, RefusesLongTextsBeforeSpellingThem) {
  VocabularyEntries verifier, own;
  ASSERT_TRUE(verifier.Add(TokenKind::kText, std::string(1000, 'a')).ok());
  ASSERT_TRUE(verifier.Add(TokenKind::kText, "a").ok());
  ASSERT_TRUE(own.Add(TokenKind::kText, "a").ok());
  bounds_.vocabulary = std::make_shared<const VocabularyMap>(
      VocabularyMap::Create(verifier, {.entries = own}).value());
  bounds_.shared_tokens = bounds_.vocabulary->SharedMask(bounds_.vocab_size);
  SessionOpening open;
  open.tokens = {1, 1};
  open.plan = {.round = 4, .shape = Sequences(1, 1)};
  DraftSession session = DraftSession::Create(open, &bounds_).value();
  const std::vector<TokenId> many(1 << 15, 0);
  open.tokens = many;
  const SessionVerdict verdict = Decision(0, many);

  const testing::AllocationWatch watch;
  const Status opened = DraftSession::Create(open, &bounds_).status();
  const Status applied = session.Apply(verdict).status();
  EXPECT_LT(watch.peak(), 1 << 20);
  for (const Status& status : {opened, applied}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), ::testing::HasSubstr("32768")) << status.ToString();
  }
}

TEST_F(DraftSessionTest, FeedsTokensBeforeDrafting) {
  DraftSession session = MakeSession(Sequences(2, 2));
  EXPECT_THAT(session.Missing(), ElementsAre(1, 2, 3));
  session.MarkFed(2);
  EXPECT_THAT(session.Missing(), ElementsAre(3));
  Draw(session, {5, 6});
  EXPECT_THAT(session.Missing(), IsEmpty());
  EXPECT_THAT(session.frontier(), ElementsAre(1, 2));
  Draw(session, {4});
  EXPECT_FALSE(session.drafting());
  EXPECT_THAT(session.TakeChunk().tokens, ElementsAre(5, 6, 4, 4));
}

TEST_F(DraftSessionTest, CountsKvOfAcceptedTokensOnly) {
  // Nodes 1 2 3 of one sequence; the last one is never run.
  const std::vector<int> kept = {3, 4, 5, 5};
  const std::vector<int> fed = {0, 1, 2, 2};
  for (int node = 0; node <= 3; ++node) {
    DraftSession session = MakeSession(Sequences(1, 3));
    for (const TokenId token : {4, 5, 6}) Draw(session, {token});
    (void)session.TakeChunk();
    const Result<int> applied = session.Apply(Decision(node, {2}));
    ASSERT_TRUE(applied.ok());
    EXPECT_EQ(*applied, fed[static_cast<size_t>(node)]);
    EXPECT_EQ(session.kv_length(), kept[static_cast<size_t>(node)]);
    EXPECT_EQ(session.length(), 3 + node + 1);
    EXPECT_EQ(session.Missing().back(), 2);
  }
}

TEST_F(DraftSessionTest, TakesPathOfAcceptedNode) {
  DraftSession session = MakeSession({.length = 2, .branching = {2, 2}});
  Draw(session, {5, 6});
  Draw(session, {4, 3});
  (void)session.TakeChunk();
  ASSERT_EQ(session.draft().size(), 6);
  EXPECT_EQ(*session.Apply(Decision(6, {0})), 2);  // after node 2: 4 is node 5, 3 is node 6
  session.MarkFed(0);
  EXPECT_THAT(session.Missing(), ElementsAre(3, 0));  // 6 was run, its child was not
}

TEST_F(DraftSessionTest, OnlySentTokensCanBeAccepted) {
  DraftSession session = MakeSession(Sequences(1, 4));
  Draw(session, {4});
  Draw(session, {5});
  EXPECT_EQ(session.Apply(Decision(1, {0})).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(session.TakeChunk().more);
  Draw(session, {6});
  EXPECT_EQ(session.Apply(Decision(3, {0})).status().code(), Code::kInvalidArgument);
  const Result<int> applied = session.Apply(Decision(2, {0}));
  ASSERT_TRUE(applied.ok());
  EXPECT_EQ(*applied, 2);  // run for the depth that was not sent
  EXPECT_THAT(session.Missing(), ElementsAre(0));
}

TEST_F(DraftSessionTest, RefusedVerdictChangesNothing) {
  DraftSession session = MakeSession(Sequences(1, 2));
  Draw(session, {4});
  Draw(session, {5});
  EXPECT_THAT(session.TakeChunk().tokens, ElementsAre(4, 5));
  EXPECT_EQ(session.Apply(Decision(2, {1, 8})).status().code(), Code::kInvalidArgument);
  SessionVerdict large = Decision(2, {1});
  large.plan.shape = Sequences(11, 1);
  EXPECT_EQ(session.Apply(large).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(session.length(), 3);
  EXPECT_EQ(session.round(), 4u);
  EXPECT_EQ(session.draft().size(), 2);
  EXPECT_TRUE(session.Apply(Decision(2, {1})).ok());
}

TEST_F(DraftSessionTest, CutsPlansToFeasibleDepths) {
  bounds_.max_context = 5;
  EXPECT_EQ(MakeSession(Sequences(2, 9)).shape().length, 3);  // depths after 3, 4 and 5 tokens
  bounds_.max_draft_length = 2;
  EXPECT_EQ(MakeSession(Sequences(2, 9)).shape().length, 2);
  EXPECT_FALSE(MakeSession(Sequences(1, 0)).drafting());
  EXPECT_FALSE(MakeSession(Sequences(1, -1)).drafting());
}

}  // namespace
}  // namespace outrider
