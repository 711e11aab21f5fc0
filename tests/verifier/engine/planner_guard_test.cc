// Drafts of one session that slow all others (verifier/control/drafting_guard.h).
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "verifier/engine/planner.h"

namespace outrider {
namespace {

// One session that a drafter would help, and others that never draft, whose rounds take four times
// as long meanwhile: the device is shared.
class PlannerGuardTest : public ::testing::Test {
 protected:
  explicit PlannerGuardTest(const std::string& policy = "adaptive")
      : planner_({.control = {.policy = policy},
                  .passes = {{.rows = 1, .seconds = 0.010}, {.rows = 16, .seconds = 0.011}}},
                 nullptr) {
    for (int i = 0; i < 8; ++i) sessions_.push_back(Open());
  }

  std::unique_ptr<SessionPlanner> Open() {
    const GenerationRequest request{.prompt = {1}};
    const RequestLimits limits{
        .vocab_size = 100, .max_draft_length = 16, .max_paths = 8, .max_draft_tokens = 128};
    return planner_.Open(request, ResolveSpeculation(request, {.draft_length = 4}, limits));
  }

  // Returns the share of rounds in which the first session drafted.
  double Run(int rounds) {
    int drafted = 0;
    for (int round = 0; round < rounds; ++round) {
      if (!sessions_[0]->pending()) {
        for (size_t i = 0; i < sessions_.size(); ++i) Choose(i);
      }
      const int length = length_;
      drafted += length > 0 ? 1 : 0;
      const auto sessions = static_cast<int>(sessions_.size());
      planner_.OnStep(
          {.sessions = sessions, .planned = sessions, .rows = sessions + length, .seconds = 0.010});
      for (size_t i = 0; i < sessions_.size(); ++i) {
        const int own = i == 0 ? length : 0;
        const double slowed = length > 0 && i > 0 ? 0.040 : 0.010 + 0.001 * own;
        sessions_[i]->Conclude(
            {.accepted = own, .drafted = own, .emitted = own + 1, .seconds = slowed});
        Choose(i);
      }
    }
    return static_cast<double>(drafted) / rounds;
  }

  void Choose(size_t i) {
    const DraftTiming near{.network = 1e-4, .depth = 1e-3, .model = "m"};
    const NextRound next = sessions_[i]->Choose(
        {.remaining = 1000, .room = i == 0 ? 64 : 0, .drafter = near, .is_open = true}, 0);
    if (i == 0) length_ = next.shape.length;
  }

  int length_ = 0;  // of the first session's draft
  Planner planner_;
  std::vector<std::unique_ptr<SessionPlanner>> sessions_;
};

TEST_F(PlannerGuardTest, HoldsDraftersBackFromAll) {
  Run(400);
  EXPECT_LT(Run(1000), 0.1);
}

TEST_F(PlannerGuardTest, LoneSessionDraftsAtOnce) {
  Run(400);
  sessions_.resize(1);
  EXPECT_GT(Run(100), 0.8);
}

class FixedPlannerTest : public PlannerGuardTest {
 protected:
  FixedPlannerTest() : PlannerGuardTest("fixed:draft-1x4") {}
};

TEST_F(FixedPlannerTest, DraftsWhateverItCosts) { EXPECT_EQ(Run(500), 1); }

}  // namespace
}  // namespace outrider
