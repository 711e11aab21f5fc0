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
    for (int i = 0; silent && i < 3; ++i) {
      drafter.punctuality.MarkLate(now_, 1, /*nothing_arrived=*/true);
    }
  }
  void AddSessions(uint64_t drafter, int sessions) {
    for (int i = 0; i < sessions; ++i) assignments_.Add(++session_, {.drafter = drafter});
  }
  DrafterDemand DemandFor(int running, int waiting = 0, int most = 64) const {
    return DemandOf(drafters_, assignments_, {.running = running, .waiting = waiting}, most, now_);
  }
  static DrafterDemand MakeDemand(int wanted, int attached) {
    return {.wanted = wanted, .attached = attached};
  }

  const Time now_{std::chrono::hours(1)};
  ConnectedDrafters drafters_;
  Assignments assignments_;
  uint64_t session_ = 0;
};

TEST_F(Demand, IdleVerifierWantsOne) {
  EXPECT_EQ(DemandFor(0), MakeDemand(1, 0));
  Add(1);
  Add(2);
  EXPECT_EQ(DemandFor(0), MakeDemand(1, 2));
}

TEST_F(Demand, CountsSessionsWithoutRoom) {
  EXPECT_EQ(DemandFor(20), MakeDemand(3, 0));
  Add(1);
  EXPECT_EQ(DemandFor(20), MakeDemand(1, 1)) << "there is room, so they do without by choice";
  AddSessions(1, 16);
  EXPECT_EQ(DemandFor(40), MakeDemand(5, 1)) << "the drafter is full";
  EXPECT_EQ(DemandFor(16), MakeDemand(2, 1));
}

TEST_F(Demand, CountsWaitingUpToRunning) {
  EXPECT_EQ(DemandFor(8, 4), MakeDemand(2, 0));
  EXPECT_EQ(DemandFor(8, 1000), MakeDemand(2, 0));
  EXPECT_EQ(DemandFor(200, 200, 10), MakeDemand(10, 0)) << "no more than may attach";
}

TEST_F(Demand, SuspendedDraftersDoNotHelp) {
  Add(1);
  Add(2, std::nullopt, /*silent=*/true);
  AddSessions(2, 9);
  EXPECT_EQ(DemandFor(9), MakeDemand(2, 1)) << "its sessions need others";
}

TEST_F(Demand, LeavingDraftersDoNotCount) {
  Add(1, 0);
  AddSessions(1, 5);
  EXPECT_EQ(DemandFor(5), MakeDemand(1, 0));
  Add(2, 3);
  EXPECT_EQ(DemandFor(5), MakeDemand(1, 1));
}

TEST_F(Demand, FullDraftersCount) {
  Add(1, 0);
  EXPECT_EQ(DemandFor(5), MakeDemand(1, 1)) << "others hold its sessions for now";
}

}  // namespace
}  // namespace outrider
