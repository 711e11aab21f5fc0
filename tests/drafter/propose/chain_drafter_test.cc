#include "drafter/propose/chain_drafter.h"

#include <gmock/gmock.h>

#include <vector>

#include "tests/drafter/propose/loop_device.h"
#include "tests/drafter/propose/parts_fixture.h"

namespace outrider {
namespace {

using ::testing::SizeIs;

class ChainDrafterTest : public PartsTest {
 protected:
  void BuildWithDevice(DraftObserver* observer = nullptr) {
    Build({.chunk_depths = 4}, {}, observer);
    testing::GiveDevice(*model_);
    chains_ = std::make_unique<ChainDrafter>(&parts_->depths);
  }
  int Depths() { return chains_->Depths(PlanPass(parts_->sessions, {})); }

  std::unique_ptr<ChainDrafter> chains_;
};

TEST_F(ChainDrafterTest, EndsWithFirstDuePart) {
  BuildWithDevice();
  VerifierConnection& connection = Connect(1);
  EXPECT_EQ(Depths(), 0) << "no session drafts";
  Hold(connection, 1, 9);
  EXPECT_EQ(Depths(), 4);
  Hold(connection, 2, 3);
  EXPECT_EQ(Depths(), 3);
}

TEST_F(ChainDrafterTest, EverySessionMustDraftAChain) {
  BuildWithDevice();
  VerifierConnection& connection = Connect(1);
  HeldSession& held = Hold(connection, 1, 4);
  held.prompt = 1;
  EXPECT_EQ(Depths(), 4) << "recorded, but not in this round";
  Hold(connection, 2, 0);  // a verdict on it may arrive at any time
  EXPECT_EQ(Depths(), 0);
  parts_->sessions.Discard(connection, 2);
  Hold(connection, Opening(3, Sequences(2, 4)));
  EXPECT_EQ(Depths(), 0);
  parts_->sessions.Discard(connection, 3);
  SessionOpening trained = Opening(4, Sequences(1, 4));
  trained.plan.stop = {.kind = StopRule::Kind::kHead, .threshold = 1.f};
  Hold(connection, trained).prompt = 1;
  EXPECT_EQ(Depths(), 0);
  model_->set_draft_device(nullptr);
  parts_->sessions.Discard(connection, 4);
  EXPECT_EQ(Depths(), 0);
}

TEST_F(ChainDrafterTest, DrawsAndReportsEachDepth) {
  class Reports final : public DraftObserver {
   public:
    void OnStep(const StepReport& report) override { all.push_back(report); }
    std::vector<StepReport> all;
  } reports;
  BuildWithDevice(&reports);
  VerifierConnection& connection = Connect(1);
  const DraftSession& session = Hold(connection, 1, 6).mirror->session;
  chains_->Run(PlanPass(parts_->sessions, {}), 3);
  EXPECT_EQ(session.depths_drawn(), 3);
  EXPECT_TRUE(session.Missing().empty());
  ASSERT_THAT(reports.all, SizeIs(3));
  EXPECT_EQ(reports.all[0].rows, 5);
  EXPECT_EQ(reports.all[1].rows, 1);
  EXPECT_GT(reports.all[0].device_bytes, 0);
  EXPECT_EQ(reports.all[1].device_bytes, 0);
  EXPECT_EQ(model_->length(connection.sessions.at(1).mirror->kv.sequence(0)), 5 + 2)
      << "the last token is not computed";
  model_->FailNextForward(Internal("lost"));
  chains_->Run(PlanPass(parts_->sessions, {}), 1);
  EXPECT_EQ(parts_->sessions.size(), 0);
}

}  // namespace
}  // namespace outrider
