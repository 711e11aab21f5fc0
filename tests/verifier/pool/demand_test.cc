#include "verifier/pool/demand.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

class Demand : public ::testing::Test {
 protected:
  // A drafter that has drafted in time, unless it is `silent`.
  void Add(uint64_t id, std::optional<int> session_limit = std::nullopt, bool silent = false) {
    ConnectedDrafter& drafter = drafters_[id];
    drafter.hello = {.max_sessions = 16, .max_context = 100};
    drafter.load.session_limit = session_limit;
    drafter.punctuality.RecordDraft(now_, 0.001, 1, /*late=*/false);
    for (int i = 0; silent && i < 3; ++i) drafter.punctuality.MarkLate(now_, 1, /*silent=*/true);
  }
  void Hold(uint64_t drafter, int sessions) {
    for (int i = 0; i < sessions; ++i) assignments_.Add(++session_, {.drafter = drafter});
  }
  DrafterDemand Of(int running, int waiting = 0, int most = 64) const {
    return DemandOf(drafters_, assignments_, {.running = running, .waiting = waiting}, most, now_);
  }
  static DrafterDemand Said(int wanted, int attached) {
    return {.wanted = wanted, .attached = attached};
  }

  const Time now_{std::chrono::hours(1)};
  ConnectedDrafters drafters_;
  Assignments assignments_;
  uint64_t session_ = 0;
};

TEST_F(Demand, IdleVerifierWantsOne) {
  EXPECT_EQ(Of(0), Said(1, 0));
  Add(1);
  Add(2);
  EXPECT_EQ(Of(0), Said(1, 2));
}

TEST_F(Demand, CountsSessionsWithoutRoom) {
  EXPECT_EQ(Of(20), Said(3, 0));
  Add(1);
  EXPECT_EQ(Of(20), Said(1, 1)) << "there is room, so they do without by choice";
  Hold(1, 16);
  EXPECT_EQ(Of(40), Said(5, 1)) << "the drafter is full";
  EXPECT_EQ(Of(16), Said(2, 1));
}

TEST_F(Demand, CountsWaitingUpToRunning) {
  EXPECT_EQ(Of(8, 4), Said(2, 0));
  EXPECT_EQ(Of(8, 1000), Said(2, 0));
  EXPECT_EQ(Of(200, 200, 10), Said(10, 0)) << "no more than may attach";
}

TEST_F(Demand, SuspendedDraftersDoNotHelp) {
  Add(1);
  Add(2, std::nullopt, /*silent=*/true);
  Hold(2, 9);
  EXPECT_EQ(Of(9), Said(2, 1)) << "its sessions need others";
}

TEST_F(Demand, LeavingDraftersDoNotCount) {
  Add(1, 0);
  Hold(1, 5);
  EXPECT_EQ(Of(5), Said(1, 0));
  Add(2, 3);
  EXPECT_EQ(Of(5), Said(1, 1));
}

}  // namespace
}  // namespace outrider
