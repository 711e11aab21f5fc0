#include "drafter/propose/depth_drafter.h"

#include <gmock/gmock.h>

#include <chrono>
#include <limits>
#include <vector>

#include "common/spec/stop_rule.h"
#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::DoubleEq;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class DepthDrafterTest : public PartsTest {
 protected:
  class Reports final : public DraftObserver {
   public:
    void OnStep(const StepReport& report) override { all.push_back(report); }
    std::vector<StepReport> all;
  };
  Reports reports_;
};

TEST_F(DepthDrafterTest, PassDrawsOneDepthPerDraft) {
  Build({.chunk_depths = 8}, {}, &reports_);
  VerifierConnection& connection = Connect(1);
  HeldSession& reads = Hold(connection, 1, 4, {1, 2, 3, 4, 5, 6});
  HeldSession& draws = Hold(connection, 2, 4, {1, 2, 3});
  model_->set_on_forward([this](int rows) { clock_.Advance(std::chrono::milliseconds(rows)); });
  parts_->depths.Run(PlanPass(parts_->sessions, {.tokens = 7, .session_tokens = 4}));
  EXPECT_THAT(reads.mirror->session.Missing(), SizeIs(2));
  EXPECT_EQ(reads.mirror->session.depths_drawn(), 0);
  EXPECT_EQ(draws.mirror->session.depths_drawn(), 1);
  ASSERT_THAT(reports_.all, SizeIs(1));
  EXPECT_EQ(reports_.all[0].sessions, 2);
  EXPECT_EQ(reports_.all[0].rows, 7);
  EXPECT_EQ(reports_.all[0].drafted_tokens, 1);
  EXPECT_FALSE(reports_.all[0].ahead);
  EXPECT_THAT(reports_.all[0].seconds, DoubleEq(0.007));
}

TEST_F(DepthDrafterTest, SendsWholePartsAndEnds) {
  Build({.chunk_depths = 3});
  VerifierConnection& connection = Connect(1);
  HeldSession& held = Hold(connection, 1, 4);
  std::vector<size_t> sent;
  std::vector<int> due;
  while (held.mirror->session.drafting()) {
    due.push_back(parts_->depths.DepthsDue(held.mirror->session));
    RunPass();
    sent.push_back(connection.outbox.size());
  }
  EXPECT_EQ(sent, (std::vector<size_t>{0, 0, 1, 2}));
  EXPECT_EQ(due, (std::vector<int>{3, 2, 1, 1}));
}

TEST_F(DepthDrafterTest, FailedPassRefusesItsSessionsOnly) {
  Build({}, {}, &reports_);
  VerifierConnection& connection = Connect(1);
  Hold(connection, 1, 1);
  RunPass();
  connection.outbox.clear();
  Hold(connection, 2, 2);
  model_->FailNextForward(Internal("lost"));
  RunPass();
  EXPECT_EQ(connection.sessions.count(1), 1u);
  EXPECT_EQ(connection.sessions.count(2), 0u);
  ASSERT_THAT(connection.outbox, SizeIs(1));
  EXPECT_THAT(connection.outbox[0].chunk.tokens, IsEmpty());
  EXPECT_THAT(reports_.all, SizeIs(1)) << "a pass that failed is not counted";
}

TEST_F(DepthDrafterTest, BrokenRowsRefuseTheirSessionOnly) {
  Build({}, {}, &reports_);
  VerifierConnection& connection = Connect(1);
  Hold(connection, 1, 1);
  Hold(connection, 2, 1);
  int rows = 0;
  model_->set_on_row([&rows](std::span<float> row) {
    if (rows++ == 0) row[0] = std::numeric_limits<float>::quiet_NaN();
  });
  RunPass();
  EXPECT_EQ(connection.sessions.count(1), 0u);
  EXPECT_EQ(connection.sessions.count(2), 1u);
  ASSERT_THAT(connection.outbox, SizeIs(2));
  EXPECT_THAT(connection.outbox[0].chunk.tokens, IsEmpty());
  EXPECT_THAT(connection.outbox[1].chunk.tokens, SizeIs(1));
  EXPECT_EQ(reports_.all[0].broken_rows, 1);
}

// The head takes the cost of a pass into account, measured while drafting.
TEST_F(DepthDrafterTest, DecodingPassesTeachTheHead) {
  const AcceptanceHead head{.width = 4, .depth = 0, .parameters = {1.f, -1.f, 0.5f, 0.5f, 0.f}};
  for (const bool reads_prompt : {true, false}) {
    Build({.head = &head}, {.total_pages = 1024});
    model_->set_on_forward([this](int) { clock_.Advance(std::chrono::milliseconds(5)); });
    VerifierConnection& connection = Connect(1);
    SessionOpening open = Opening(0, Sequences(1, 3), std::vector<TokenId>(kCatchUpTokens + 1, 3));
    open.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 0.9999f};
    HeldSession& held = Hold(connection, open);
    while (held.mirror->session.drafting()) RunPass();
    const SessionVerdict verdict{
        .session = 0, .round = 1, .node = 2, .next = {7}, .acceptance = "\xc0\xc0\xc0"};
    for (uint64_t id = 1; id <= 40; ++id) {
      parts_->head.OnVerdict(held, verdict, clock_.Now());
      Hold(connection, id, 1, std::vector<TokenId>(kCatchUpTokens + (reads_prompt ? 1 : 0), 3));
      RunPass();
      parts_->sessions.Discard(connection, id);
    }
    if (reads_prompt) {
      EXPECT_EQ(parts_->head.state()->threshold(), kFirstHeadThreshold);
    } else {
      EXPECT_NE(parts_->head.state()->threshold(), kFirstHeadThreshold);
    }
  }
}

TEST_F(DepthDrafterTest, SendsOnlyWholeGuesses) {
  Build({.lookahead = {.tokens = 64, .max_rows = 16}}, {}, &reports_);
  VerifierConnection& connection = Connect(1);
  HeldSession& held = Hold(connection, 1, 2);
  RunPasses();
  connection.outbox.clear();
  const std::vector<PassShare> shares = parts_->lookahead.Plan();
  ASSERT_FALSE(shares.empty());
  parts_->depths.Run(shares);
  EXPECT_THAT(connection.outbox, IsEmpty());
  EXPECT_EQ(held.mirror->session.round(), 1u);
  EXPECT_TRUE(reports_.all.back().ahead);
  EXPECT_GT(reports_.all.back().drafted_tokens, 0);
}

}  // namespace
}  // namespace outrider
