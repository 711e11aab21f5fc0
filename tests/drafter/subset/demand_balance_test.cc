#include "drafter/subset/demand_balance.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

DrafterDemand Of(int attached, int wanted) { return {.wanted = wanted, .attached = attached}; }

double SameZone(const DrafterDemand& from, const DrafterDemand& to) {
  return MoveProbability(from, to, MoveKind::kSameZone);
}

TEST(DemandBalance, SpareDraftersGoWhereDraftersLack) {
  EXPECT_DOUBLE_EQ(SameZone(Of(12, 10), Of(6, 10)), 2. / 12) << "two are spare";
  EXPECT_DOUBLE_EQ(SameZone(Of(40, 36), Of(39, 40)), 1. / 40) << "one lacks";
  EXPECT_EQ(SameZone(Of(10, 10), Of(9, 10)), 0) << "none is spare";
}

TEST(DemandBalance, SpareDraftersAreSpreadEvenly) {
  EXPECT_DOUBLE_EQ(SameZone(Of(60, 1), Of(20, 1)), 20. / 60);
  EXPECT_DOUBLE_EQ(SameZone(Of(44, 1), Of(0, 1)), 22. / 44) << "not one at a time";
  EXPECT_EQ(SameZone(Of(45, 1), Of(36, 1)), 0) << "even enough";
  EXPECT_EQ(SameZone(Of(20, 1), Of(60, 1)), 0);
  EXPECT_EQ(SameZone(Of(2, 1), Of(1, 1)), 0) << "they would only change places";
  EXPECT_GT(SameZone(Of(2, 1), Of(0, 1)), 0);
}

TEST(DemandBalance, SharesScarceDraftersByDemand) {
  EXPECT_DOUBLE_EQ(SameZone(Of(40, 50), Of(0, 50)), 20. / 40);
  EXPECT_EQ(SameZone(Of(40, 50), Of(30, 50)), 0) << "even enough";
  EXPECT_EQ(SameZone(Of(1, 8), Of(0, 8)), 0) << "the first would have none";
  EXPECT_GT(SameZone(Of(10, 10), Of(10, 40)), 0) << "a quarter of what it wants";
}

TEST(DemandBalance, PrefersOwnZoneUnlessBetterServed) {
  const auto home = [](const DrafterDemand& from, const DrafterDemand& to) {
    return MoveProbability(from, to, MoveKind::kToOwnZone);
  };
  EXPECT_GT(home(Of(40, 1), Of(40, 1)), 0);
  EXPECT_EQ(home(Of(20, 1), Of(50, 1)), 0);
  EXPECT_EQ(home(Of(4, 8), Of(8, 8)), 0) << "needed more where it is";
  EXPECT_GT(home(Of(8, 8), Of(4, 8)), 0);
}

TEST(DemandBalance, LeavesOwnZoneForGreatNeed) {
  const auto away = [](const DrafterDemand& from, const DrafterDemand& to) {
    return MoveProbability(from, to, MoveKind::kFromOwnZone);
  };
  EXPECT_EQ(away(Of(40, 1), Of(20, 1)), 0);
  EXPECT_EQ(away(Of(40, 1), Of(4, 8)), 0) << "it has half";
  EXPECT_GT(away(Of(40, 1), Of(3, 8)), 0);
  EXPECT_EQ(away(Of(8, 8), Of(0, 8)), 0) << "none is spare";
}

TEST(DemandBalance, StandsSenselessNumbers) {
  for (const int attached : {-5, 0, 1, 1 << 30}) {
    for (const int wanted : {-5, 0, 1, 1 << 30}) {
      for (const MoveKind kind :
           {MoveKind::kSameZone, MoveKind::kToOwnZone, MoveKind::kFromOwnZone}) {
        const double there = MoveProbability(Of(attached, wanted), Of(3, 3), kind);
        const double back = MoveProbability(Of(3, 3), Of(attached, wanted), kind);
        EXPECT_TRUE(there >= 0 && there <= 1) << attached << " " << wanted;
        EXPECT_TRUE(back >= 0 && back <= 1) << attached << " " << wanted;
      }
    }
  }
}

}  // namespace
}  // namespace outrider
