#include "drafter/propose/draft_sessions.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraftSessionsTest : public PartsTest {
 protected:
  // Records what observers are told at the end of sessions.
  class Ends final : public DraftObserver {
   public:
    void OnRefused(const HeldSession& held, const Status&) override { Add("refused", held); }
    void OnClosed(const HeldSession& held) override { Add("closed", held); }
    std::vector<std::string> heard;

   private:
    void Add(const std::string& what, const HeldSession& held) {
      heard.push_back(what + " " + std::to_string(held.id));
    }
  };
  Ends ends_;
};

TEST(SessionLimit, FitsBesideOthers) {
  EXPECT_EQ(SessionLimitOf({}, /*max_sessions=*/8, /*share=*/4), 8);
  EXPECT_EQ(SessionLimitOf({3}, 8, 4), 5);
  EXPECT_EQ(SessionLimitOf({8}, 8, 4), 4) << "half of them give way";
  EXPECT_EQ(SessionLimitOf({4, 3}, 8, 4), 1) << "one of these is left, and has no share";
  EXPECT_EQ(SessionLimitOf({4, 4}, 8, 4), 0);
}

TEST_F(DraftSessionsTest, EachVerifierHasEqualShare) {
  Build({.max_sessions = 4}, {}, &ends_);
  VerifierConnection& large = Connect(1);
  for (uint64_t id = 1; id <= 4; ++id) Hold(large, id, 2);
  EXPECT_EQ(parts_->sessions.MakeRoom(large).code(), Code::kResourceExhausted);
  EXPECT_EQ(parts_->sessions.SessionLimit(large), 4);

  VerifierConnection& small = Connect(2);
  EXPECT_EQ(parts_->sessions.SessionLimit(small), 2);
  EXPECT_EQ(parts_->sessions.SessionLimit(large), 4) << "what it holds, until it is asked for";
  ASSERT_TRUE(parts_->sessions.MakeRoom(small).ok());
  EXPECT_THAT(ends_.heard, ElementsAre("refused 4", "closed 4")) << "the newest, still drafting";
  EXPECT_THAT(large.outbox, SizeIs(1));
  EXPECT_EQ(parts_->sessions.size(), 3);
  Hold(small, 1, 2);
  EXPECT_EQ(parts_->sessions.SessionLimit(large), 3);

  small.wanted = false;
  EXPECT_EQ(parts_->sessions.SessionLimit(small), 0);
  EXPECT_EQ(parts_->sessions.SessionLimit(large), 3) << "the other keeps the session that it has";
}

TEST_F(DraftSessionsTest, AnsweredSessionGivesWayUnheard) {
  Build({.max_sessions = 2}, {}, &ends_);
  VerifierConnection& large = Connect(1);
  Hold(large, 1, 1);
  Hold(large, 2, 1);
  RunPass();
  large.outbox.clear();
  ASSERT_TRUE(parts_->sessions.MakeRoom(Connect(2)).ok());
  EXPECT_THAT(ends_.heard, ElementsAre("closed 2"));
  EXPECT_THAT(large.outbox, IsEmpty());
}

TEST_F(DraftSessionsTest, VerifierWithFewerTokensGetsPages) {
  Build({}, {.page_tokens = 4, .total_pages = 12}, &ends_);
  const std::vector<TokenId> prompt(20, 3);
  VerifierConnection& large = Connect(1);
  Hold(large, 1, 1, prompt);
  Hold(large, 2, 1, prompt);
  VerifierConnection& small = Connect(2);
  Hold(small, 1, 1, prompt);
  EXPECT_THAT(ends_.heard, ElementsAre("refused 2", "closed 2"));
  // It has as many tokens as the other now, and can take nothing.
  Result<DraftSession> session =
      DraftSession::Create(Opening(2, Sequences(1, 1), prompt), &small.bounds);
  HeldSession& held = parts_->sessions.Add(small, 2, std::move(session).value());
  EXPECT_EQ(parts_->sessions.SecurePages(held).code(), Code::kResourceExhausted);
}

TEST_F(DraftSessionsTest, DisconnectFreesSessionsAndPages) {
  Build({}, {}, &ends_);
  VerifierConnection& connection = Connect(1);
  Hold(connection, 1, 4);
  Hold(connection, 2, 4);
  Hold(Connect(2), 1, 4);
  RunPass();
  parts_->sessions.Disconnect(1);
  EXPECT_EQ(parts_->sessions.Find(1), nullptr);
  EXPECT_THAT(ends_.heard, ElementsAre("closed 1", "closed 2"));
  EXPECT_EQ(parts_->sessions.load().sessions, 1);
  EXPECT_EQ(model_->sequences(), 1);
  parts_->sessions.Disconnect(2);
  parts_->sessions.Disconnect(2);
  EXPECT_EQ(parts_->sessions.load().free_pages, model_->total_pages());
}

TEST_F(DraftSessionsTest, RefusalAnswersUnknownSessionsToo) {
  Build({}, {}, &ends_);
  VerifierConnection& connection = Connect(1);
  parts_->sessions.Refuse(connection, 5, 3, InvalidArgument("no such session"));
  EXPECT_THAT(ends_.heard, IsEmpty());
  ASSERT_THAT(connection.outbox, SizeIs(1));
  EXPECT_EQ(connection.outbox[0].session, 5u);
  EXPECT_EQ(connection.outbox[0].round, 3u);
  EXPECT_THAT(connection.outbox[0].chunk.tokens, IsEmpty());
}

}  // namespace
}  // namespace outrider
