#include "verifier/http/body_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace outrider {
namespace {

using Full = BodyBudget::Full;

TEST(BodyBudget, BoundsEachPeersShare) {
  BodyBudget budget({.total = 100, .per_peer = 60});
  EXPECT_EQ(budget.Take("a", 60), Full::kNo);
  EXPECT_EQ(budget.Take("a", 1), Full::kPeer);
  EXPECT_EQ(budget.Take("b", 41), Full::kServer);
  EXPECT_EQ(budget.Take("b", 40), Full::kNo);
  budget.Return("a", 60);
  EXPECT_EQ(budget.Take("c", 61), Full::kServer);
  EXPECT_EQ(budget.Take("c", 60), Full::kNo);
  EXPECT_EQ(budget.held(), 100u);
}

TEST(BodyBudget, SharesReturnWhatTheyTook) {
  const auto budget = std::make_shared<BodyBudget>(BodyBudget::Limits{100, 60});
  {
    BodyShare first(budget, "a");
    EXPECT_EQ(first.GrowTo(20), Full::kNo);
    EXPECT_EQ(first.GrowTo(50), Full::kNo);
    EXPECT_EQ(first.GrowTo(70), Full::kPeer);
    EXPECT_EQ(budget->held(), 50u);
    BodyShare moved = std::move(first);
    EXPECT_EQ(budget->held(), 50u);
    moved = BodyShare();
    EXPECT_EQ(budget->held(), 0u);
    EXPECT_EQ(moved.GrowTo(1000), Full::kNo) << "without a budget there is no limit";
  }
  EXPECT_EQ(budget->held(), 0u);
}

TEST(BodyBudget, ReturnsMemoryOnceAfterFlood) {
  BodyBudget budget({.trim_pause = Duration::zero()});
  for (int round = 1; round <= 2; ++round) {
    EXPECT_EQ(budget.Take("a", 20 << 20), Full::kNo);
    budget.Return("a", 20 << 20);
    EXPECT_EQ(budget.trims(), round - 1) << "that was not a flood";
    for (const char* peer : {"a", "b", "c"}) EXPECT_EQ(budget.Take(peer, 20 << 20), Full::kNo);
    for (const char* peer : {"a", "b", "c"}) budget.Return(peer, 20 << 20);
    EXPECT_EQ(budget.trims(), round);
  }
}

TEST(BodyBudget, ReturnsMemoryOncePerPause) {
  BodyBudget budget({.trim_pause = std::chrono::hours(24)});
  for (int round = 1; round <= 3; ++round) {
    EXPECT_EQ(budget.Take("a", 60 << 20), Full::kNo);
    budget.Return("a", 60 << 20);
    EXPECT_EQ(budget.trims(), 1);
  }
}

}  // namespace
}  // namespace outrider
