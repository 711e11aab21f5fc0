#include "drafter/propose/draft_sender.h"

#include <gmock/gmock.h>

#include <chrono>
#include <vector>

#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DraftSenderTest : public PartsTest {
 protected:
  class Heard final : public DraftObserver {
   public:
    void OnDraftSent(const HeldSession&, double seconds, Time) override { sent.push_back(seconds); }
    void OnLoad(const DrafterLoad& load) override { sessions.push_back(load.sessions); }
    std::vector<double> sent;
    std::vector<int> sessions;
  };
  Heard heard_;
};

TEST_F(DraftSenderTest, PartsCarryTimeSincePlan) {
  Build({.chunk_depths = 2}, {}, &heard_);
  VerifierConnection& connection = Connect(1);
  HeldSession& held = Hold(connection, 7, 3);
  while (held.mirror->session.drafting()) {
    clock_.Advance(std::chrono::milliseconds(10));
    RunPass();
  }
  EXPECT_THAT(LinkOf(connection).TakeDrafts(), IsEmpty()) << "sent at the end of a step";
  parts_->sender.Flush();
  const std::vector<std::vector<DraftPart>> batches = LinkOf(connection).TakeBatches();
  ASSERT_THAT(batches, SizeIs(1));
  ASSERT_THAT(batches[0], SizeIs(2));
  EXPECT_EQ(batches[0][0].session, 7u);
  EXPECT_THAT(batches[0][0].chunk.tokens, SizeIs(2));
  EXPECT_TRUE(batches[0][0].chunk.more);
  EXPECT_THAT(batches[0][0].seconds, DoubleEq(0.02));
  EXPECT_FALSE(batches[0][1].chunk.more);
  EXPECT_THAT(batches[0][1].seconds, DoubleEq(0.03));
  EXPECT_THAT(heard_.sent, ElementsAre(DoubleEq(0.03))) << "of the whole draft, once";
  parts_->sender.Flush();
  EXPECT_THAT(LinkOf(connection).TakeDrafts(), IsEmpty());
}

TEST_F(DraftSenderTest, ReportsLoadWhereItChanged) {
  Build({.max_sessions = 4}, {}, &heard_);
  VerifierConnection& connection = Connect(1);
  const auto told = [&](VerifierConnection& to) {
    parts_->sender.Flush();
    std::vector<int> limits;
    for (const DrafterLoad& load : LinkOf(to).TakeLoads())
      limits.push_back(load.session_limit.value());
    return limits;
  };
  EXPECT_THAT(told(connection), ElementsAre(4));
  EXPECT_THAT(told(connection), IsEmpty());
  Hold(connection, 1, 2);
  EXPECT_THAT(told(connection), ElementsAre(4));
  RunPass();  // takes pages at most, which is not reported
  EXPECT_THAT(told(connection), IsEmpty());
  VerifierConnection& other = Connect(2);
  Hold(other, 1, 2);
  EXPECT_THAT(told(other), ElementsAre(3));
  EXPECT_EQ(heard_.sessions.front(), 0);
  EXPECT_EQ(heard_.sessions.back(), 2);
}

TEST_F(DraftSenderTest, ClosesUnwantedVerifiersOnceEmpty) {
  Build();
  VerifierConnection& connection = Connect(1);
  Hold(connection, 1, 2);
  connection.wanted = false;
  parts_->sender.Flush();
  EXPECT_FALSE(LinkOf(connection).closed());
  parts_->sessions.Discard(connection, 1);
  parts_->sender.Flush();
  EXPECT_TRUE(LinkOf(connection).closed());
}

}  // namespace
}  // namespace outrider
