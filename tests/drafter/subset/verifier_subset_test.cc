#include "drafter/subset/verifier_subset.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

namespace outrider {
namespace {

using std::chrono::seconds;
using Kind = SubsetChange::Kind;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAreArray;

VerifierSubset::Addresses Addresses(std::vector<std::string> addresses) {
  std::sort(addresses.begin(), addresses.end());
  return std::make_shared<const std::vector<std::string>>(std::move(addresses));
}

std::vector<std::string> Names(int count) {
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.push_back("v" + std::to_string(i) + ":1");
  return names;
}

// A drafter whose time the test moves.
class Subset : public ::testing::Test {
 protected:
  void MakeSubset(int size, const std::string& zone = "", const std::string& drafter = "d0") {
    subset_ = std::make_unique<VerifierSubset>(
        SubsetOptions{.drafter = drafter, .size = size, .zone = zone}, now_);
  }

  std::vector<SubsetChange> Advance() { return subset_->Advance(now_); }
  std::vector<std::string> Attached(const std::vector<SubsetChange>& changes) {
    std::vector<std::string> addresses;
    for (const SubsetChange& change : changes) {
      if (change.kind == Kind::kAttach) addresses.push_back(change.address);
    }
    return addresses;
  }
  // Fills the subset from these verifiers, all of which answer.
  std::vector<std::string> Fill(const std::vector<std::string>& names,
                                const DrafterDemand& demand = {.wanted = 1, .attached = 10},
                                const std::string& zone = "") {
    subset_->SetAddresses(Addresses(names));
    const std::vector<std::string> attached = Attached(Advance());
    for (const std::string& address : attached) {
      subset_->OnAttached(address, zone);
      subset_->OnDemand(address, demand);
    }
    EXPECT_THAT(Advance(), IsEmpty());
    return attached;
  }
  // Moves to the next visit, whatever else happens, and returns its address; "": there was none.
  std::string Visit() {
    for (int i = 0; i < 100; ++i) {
      now_ = std::max(now_ + std::chrono::milliseconds(1), subset_->next());
      for (const SubsetChange& change : Advance()) {
        if (change.kind == Kind::kVisit) return change.address;
      }
    }
    return "";
  }
  // Visits until a verifier with this demand gets the drafter, and returns its address.
  std::string MoveBy(const DrafterDemand& demand, const std::string& zone = "") {
    for (int i = 0; i < 200; ++i) {
      const std::string address = Visit();
      if (address.empty()) break;
      subset_->OnVisited(address, zone, demand, now_);
      const auto changes = Advance();
      if (changes.empty()) continue;
      EXPECT_THAT(Attached(changes), ElementsAre(address));
      return address;
    }
    return "";
  }

  Time now_{seconds(1000)};
  std::unique_ptr<VerifierSubset> subset_;
};

TEST_F(Subset, HoldsAllOfFewVerifiers) {
  MakeSubset(8);
  EXPECT_THAT(Fill(Names(3)), UnorderedElementsAreArray(Names(3)));
  EXPECT_EQ(subset_->held(), 3);
  EXPECT_EQ(Visit(), "") << "there is no other";
}

TEST_F(Subset, RanksDifferBetweenDrafters) {
  MakeSubset(4);
  const auto first = Fill(Names(100));
  EXPECT_THAT(first, SizeIs(4));
  MakeSubset(4);
  EXPECT_EQ(Fill(Names(100)), first) << "the same name, the same subset";
  MakeSubset(4, "", "d1");
  EXPECT_NE(Fill(Names(100)), first);
}

TEST_F(Subset, LostAddressMovesNoOtherStream) {
  MakeSubset(4);
  std::vector<std::string> names = Names(100);
  const auto held = Fill(names);
  std::erase(names, held[1]);
  subset_->SetAddresses(Addresses(names));
  const auto changes = Advance();
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(
      changes[0],
      (SubsetChange{.kind = Kind::kLeave, .reason = SubsetReason::kGone, .address = held[1]}));
  EXPECT_EQ(changes[1].kind, Kind::kAttach);
  EXPECT_EQ(changes[1].reason, SubsetReason::kFill);
  EXPECT_EQ(subset_->leaving(), 1);
  subset_->OnLeft(held[1]);
  EXPECT_EQ(subset_->leaving(), 0);
}

TEST_F(Subset, ReplacesVerifierThatStaysAway) {
  MakeSubset(2);
  const auto held = Fill(Names(10));
  subset_->OnDetached(held[0], now_);
  EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_LE(subset_->next(), now_ + seconds(10));
  now_ += seconds(9);
  subset_->OnAttached(held[0], "");
  now_ += seconds(2);
  EXPECT_THAT(Attached(Advance()), IsEmpty()) << "it came back in time";
  subset_->OnDetached(held[0], now_);
  now_ += seconds(10);
  const auto changes = Advance();
  EXPECT_EQ(changes[0].kind, Kind::kAttach);
  EXPECT_EQ(
      changes[1],
      (SubsetChange{.kind = Kind::kLeave, .reason = SubsetReason::kLost, .address = held[0]}));
}

TEST_F(Subset, KeepsDialledVerifierWithoutAnother) {
  MakeSubset(2);
  const auto held = Fill(Names(2));
  subset_->OnDetached(held[0], now_);
  subset_->OnRefused(held[1], now_);
  for (int i = 0; i < 100; ++i, now_ += seconds(10)) EXPECT_THAT(Advance(), IsEmpty());
  EXPECT_EQ(subset_->held(), 2);
}

TEST_F(Subset, RefusingVerifierTemptsEverMoreSeldom) {
  MakeSubset(1);
  const auto held = Fill(Names(2));
  const std::string other = held[0] == "v0:1" ? "v1:1" : "v0:1";
  // Each visit says that it lacks drafters, and each attachment is refused.
  std::vector<double> pauses;
  Time last = now_;
  while (pauses.size() < 12) {
    const std::string address = Visit();
    ASSERT_EQ(address, other);
    subset_->OnVisited(address, "", DrafterDemand{.wanted = 100, .attached = 0}, now_);
    if (Attached(Advance()).empty()) continue;
    subset_->OnRefused(address, now_);
    EXPECT_THAT(Advance(),
                ElementsAre(SubsetChange{
                    .kind = Kind::kLeave, .reason = SubsetReason::kRefused, .address = other}));
    subset_->OnLeft(other);
    pauses.push_back(Seconds(now_ - last));
    last = now_;
  }
  EXPECT_TRUE(subset_->holds(held[0])) << "it was never left";
  for (size_t i = 8; i < pauses.size(); ++i) EXPECT_GE(pauses[i], 300) << i;
}

TEST_F(Subset, RefusedDraftersReturnAtDifferentTimes) {
  std::vector<double> pauses;
  for (int i = 0; i < 200; ++i) {
    MakeSubset(1, "", "d" + std::to_string(i));
    const auto held = Fill(Names(2));
    subset_->OnRefused(held[0], now_);
    const auto other = Attached(Advance());
    ASSERT_THAT(other, SizeIs(1));
    subset_->OnRefused(other[0], now_);
    EXPECT_THAT(Advance(), IsEmpty()) << "both refuse";
    pauses.push_back(Seconds(subset_->next() - now_));
  }
  // 5 to 15 s, evenly: 40 in each bin of 2 s.
  std::vector<int> bins(5);
  for (const double pause : pauses) {
    ASSERT_GE(pause, 5);
    ASSERT_LT(pause, 15);
    ++bins[static_cast<size_t>((pause - 5) / 2)];
  }
  for (const int drafters : bins) {
    EXPECT_GT(drafters, 15);
    EXPECT_LT(drafters, 70);
  }
}

// Ranks do not depend on how the list of verifiers came to be.
TEST_F(Subset, ChangedListRanksAsNewOne) {
  VerifierSubset changed({.drafter = "d0", .size = kMaxSubset}, now_);
  for (const auto& [first, last] : std::vector<std::pair<int, int>>{
           {0, 60}, {20, 60}, {10, 90}, {10, 10}, {30, 200}, {29, 200}, {29, 180}, {25, 181}}) {
    const std::vector<std::string> all = Names(last);
    const auto names = Addresses({all.begin() + first, all.end()});
    changed.SetAddresses(names);
    VerifierSubset fresh({.drafter = "d0", .size = kMaxSubset}, now_);
    fresh.SetAddresses(names);
    VerifierSubset copy = changed;
    EXPECT_EQ(Attached(copy.Advance(now_)), Attached(fresh.Advance(now_))) << first << last;
  }
}

TEST_F(Subset, RefusalMovesToNextInRank) {
  MakeSubset(2);
  const auto held = Fill(Names(5));
  subset_->OnRefused(held[0], now_);
  const auto changes = Advance();
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(changes[0].kind, Kind::kAttach);
  EXPECT_EQ(changes[1].reason, SubsetReason::kRefused);
  // All of them refuse in turn: at last it keeps dialling two.
  std::vector<SubsetChange> more = changes;
  while (!more.empty()) {
    for (const std::string& address : Attached(more)) subset_->OnRefused(address, now_);
    more = Advance();
  }
  EXPECT_EQ(subset_->held(), 2);
}

TEST_F(Subset, MovesToVerifierLackingDrafters) {
  MakeSubset(4);
  const auto held = Fill(Names(20));
  subset_->OnDemand(held[2], {.wanted = 1, .attached = 30});
  const std::string to = MoveBy({.wanted = 20, .attached = 2});
  ASSERT_NE(to, "");
  EXPECT_EQ(subset_->held(), 5) << "it attaches first";
  EXPECT_EQ(subset_->leaving(), 0);
  subset_->OnAttached(to, "");
  EXPECT_THAT(Advance(),
              ElementsAre(SubsetChange{
                  .kind = Kind::kLeave, .reason = SubsetReason::kDemand, .address = held[2]}))
      << "the one with most to spare";
  EXPECT_EQ(subset_->held(), 4);
}

TEST_F(Subset, StaysIfMoveFails) {
  MakeSubset(2);
  const auto held = Fill(Names(5));
  const std::string to = MoveBy({.wanted = 20, .attached = 2});
  now_ += seconds(10);
  const auto changes = Advance();
  EXPECT_EQ(changes[0],
            (SubsetChange{.kind = Kind::kLeave, .reason = SubsetReason::kLost, .address = to}));
  EXPECT_TRUE(subset_->holds(held[0]) && subset_->holds(held[1]));
}

TEST_F(Subset, ReplacesVerifierLostDuringMoveOnce) {
  MakeSubset(2);
  const auto held = Fill(Names(9));
  const std::string to = MoveBy({.wanted = 20, .attached = 2});
  for (const std::string& address : held) subset_->OnDetached(address, now_);
  now_ += seconds(9);
  subset_->OnAttached(to, "");
  now_ += seconds(1);
  Advance();
  EXPECT_TRUE(subset_->holds(to));
  EXPECT_EQ(subset_->held(), 2);
  // The same if the move ends later than the loss is noticed.
  MakeSubset(2);
  Fill(Names(9));
  const std::string late = MoveBy({.wanted = 20, .attached = 2});
  for (const std::string& name : Names(9)) {
    if (name != late) subset_->OnRefused(name, now_);
  }
  Advance();
  subset_->OnAttached(late, "");
  Advance();
  EXPECT_EQ(subset_->held(), 2);
}

TEST_F(Subset, StaysWhereItIsNeeded) {
  MakeSubset(2);
  Fill(Names(5), {.wanted = 4, .attached = 4});
  for (int i = 0; i < 50; ++i) {
    const std::string address = Visit();
    ASSERT_NE(address, "");
    subset_->OnVisited(address, "", DrafterDemand{.wanted = 4, .attached = 3}, now_);
    EXPECT_THAT(Advance(), IsEmpty());
  }
}

TEST_F(Subset, VisitsEveryOtherInTurn) {
  MakeSubset(2);
  const auto held = Fill(Names(7));
  std::set<std::string> seen;
  for (int i = 0; i < 5; ++i) {
    const Time before = now_;
    const std::string address = Visit();
    EXPECT_GE(now_ - before, seconds(15));
    EXPECT_LE(now_ - before, seconds(45));
    EXPECT_TRUE(seen.insert(address).second);
    subset_->OnVisited(address, "", DrafterDemand{.wanted = 1, .attached = 10}, now_);
  }
  EXPECT_FALSE(seen.contains(held[0]) || seen.contains(held[1]));
}

TEST_F(Subset, VisitsHighRankedNewAddressFirst) {
  MakeSubset(2);
  Fill(Names(50));
  for (int i = 0; i < 10; ++i) subset_->OnVisited(Visit(), "", DrafterDemand{1, 10}, now_);
  // A name that ranks before all but the two that are held, found by trying.
  for (int i = 0; i < 1000; ++i) {
    std::vector<std::string> names = Names(50);
    names.push_back("new" + std::to_string(i) + ":1");
    VerifierSubset fresh({.drafter = "d0", .size = 3}, now_);
    fresh.SetAddresses(Addresses(names));
    fresh.Advance(now_);
    if (!fresh.holds(names.back())) continue;
    subset_->SetAddresses(Addresses(names));
    EXPECT_EQ(Visit(), names.back());
    return;
  }
  FAIL() << "no such name";
}

TEST_F(Subset, AsksForLostVerifierBetweenOthers) {
  MakeSubset(2);
  const auto held = Fill(Names(100));
  subset_->OnDetached(held[0], now_);
  now_ += seconds(10);
  const auto replacement = Attached(Advance());
  ASSERT_THAT(replacement, SizeIs(1));
  subset_->OnAttached(replacement[0], "");
  subset_->OnLeft(held[0]);
  const auto visits_of_lost = [&](int visits, const auto& on_lost) {
    int moved = 0;
    for (int i = 0; i < visits; ++i) {
      const std::string address = Visit();
      if (address == held[0]) {
        ++moved;
        on_lost();
      } else {
        subset_->OnVisited(address, "", DrafterDemand{.wanted = 1, .attached = 10}, now_);
      }
    }
    return moved;
  };
  const auto still_away = [&] { subset_->OnFailed(held[0], now_); };
  EXPECT_GE(visits_of_lost(3, still_away), 1);
  // Ten minutes: after 20, 40, 80, 160 and 320 s on average, and half of these at the earliest.
  const int again = visits_of_lost(20, still_away);
  EXPECT_GE(again, 2);
  EXPECT_LE(again, 6);
  const auto is_back = [&] {
    subset_->OnVisited(held[0], "", DrafterDemand{.wanted = 1, .attached = 10}, now_);
  };
  EXPECT_EQ(visits_of_lost(50, is_back), 1) << "then its turn comes as that of any other";
}

TEST_F(Subset, OldVerifiersAreNotRevisitedSoon) {
  MakeSubset(1);
  Fill(Names(2));
  const std::string old = Visit();
  subset_->OnVisited(old, "", std::nullopt, now_);
  const Time visited = now_;
  EXPECT_EQ(Visit(), old);
  EXPECT_GE(now_ - visited, seconds(600));
}

TEST_F(Subset, DrainingStreamsBoundTheMoves) {
  MakeSubset(4);
  Fill(Names(50), {.wanted = 1, .attached = 30});
  const std::string to = MoveBy({.wanted = 20, .attached = 2});
  subset_->OnAttached(to, "");
  ASSERT_THAT(Advance(), SizeIs(1));
  EXPECT_EQ(Visit(), "") << "one of four drains";
}

TEST_F(Subset, ReattachesReturningAddressWhileDraining) {
  MakeSubset(4);
  const auto held = Fill(Names(4));
  subset_->SetAddresses(Addresses({held[0], held[1], held[2]}));
  EXPECT_THAT(Advance(), SizeIs(1));
  subset_->SetAddresses(Addresses(Names(4)));
  EXPECT_THAT(Advance(),
              ElementsAre(SubsetChange{
                  .kind = Kind::kAttach, .reason = SubsetReason::kFill, .address = held[3]}));
  EXPECT_EQ(subset_->leaving(), 0);
}

TEST_F(Subset, MovesToOwnZone) {
  MakeSubset(2, "a");
  const auto held = Fill(Names(10), {.wanted = 1, .attached = 10}, "b");
  EXPECT_EQ(subset_->in_other_zone(), 2);
  const std::string to = MoveBy({.wanted = 1, .attached = 10}, "a");
  ASSERT_NE(to, "");
  subset_->OnAttached(to, "a");
  const auto changes = Advance();
  ASSERT_THAT(changes, SizeIs(1));
  EXPECT_EQ(changes[0].reason, SubsetReason::kZone);
  EXPECT_EQ(subset_->in_other_zone(), 1);
  // Without a zone of its own it does not care.
  MakeSubset(2);
  Fill(Names(10), {.wanted = 1, .attached = 10}, "b");
  EXPECT_EQ(subset_->in_other_zone(), 0);
  EXPECT_EQ(MoveBy({.wanted = 1, .attached = 10}, "a"), "");
}

TEST_F(Subset, SuspensionReturnsToOwnZone) {
  MakeSubset(1, "a");
  Fill(Names(4), {.wanted = 1, .attached = 0}, "b");
  EXPECT_NE(MoveBy({.wanted = 1, .attached = 0}, "a"), "");
}

TEST_F(Subset, ReplacesLostVerifierFromOwnZone) {
  MakeSubset(2, "a");
  const auto held = Fill(Names(20), {.wanted = 1, .attached = 10}, "a");
  std::string own;
  for (int i = 0; i < 10; ++i) {
    const std::string address = Visit();
    subset_->OnVisited(address, i == 9 ? "a" : "b", DrafterDemand{.wanted = 1, .attached = 15},
                       now_);
    if (i == 9) own = address;
  }
  subset_->OnDetached(held[0], now_);
  now_ += seconds(10);
  EXPECT_THAT(Attached(Advance()), ElementsAre(own));
}

}  // namespace
}  // namespace outrider
