#include "common/kv/page_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <vector>

namespace outrider {
namespace {

constexpr int kPageTokens = 4;

std::vector<SlotCopy> ReserveAndAppend(PageTable& table, int count,
                                       std::vector<int32_t> parents = {}) {
  std::vector<SlotCopy> copies;
  EXPECT_TRUE(table.Reserve(table.length() + count, &copies).ok());
  table.Append(count, parents);
  return copies;
}

TEST(PageTable, TakesPagesAsTokensNeedThem) {
  PagePool pool(8);
  PageTable table(&pool, kPageTokens);
  EXPECT_EQ(table.PagesNeeded(0), 0);
  EXPECT_EQ(table.PagesNeeded(4), 1);
  EXPECT_EQ(table.PagesNeeded(5), 2);
  ReserveAndAppend(table, 5);
  EXPECT_EQ(table.pages().size(), 2U);
  ReserveAndAppend(table, 3);
  EXPECT_EQ(table.pages().size(), 2U);
  EXPECT_EQ(pool.free_pages(), 6);
}

TEST(PageTable, ChangesNothingWhenPagesAreOut) {
  PagePool pool(2);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 3);
  std::vector<SlotCopy> copies;
  EXPECT_EQ(table.Reserve(9, &copies).code(), Code::kResourceExhausted);
  EXPECT_EQ(table.pages().size(), 1U);
  EXPECT_EQ(table.length(), 3);
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_TRUE(table.Reserve(8, &copies).ok());
}

TEST(PageTable, KeepsPagesUntilDestruction) {
  PagePool pool(4);
  {
    PageTable table(&pool, kPageTokens);
    ReserveAndAppend(table, 10);
    table.Truncate(1);
    EXPECT_EQ(pool.free_pages(), 1);
    EXPECT_EQ(table.PagesNeeded(12), 0);
  }
  EXPECT_EQ(pool.free_pages(), 4);
}

TEST(PageTable, ForkSharesFullPages) {
  PagePool pool(8);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 11);
  std::vector<SlotCopy> copies;
  const Result<PageTable> fork = table.Fork(6, &copies);
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(fork->length(), 6);
  EXPECT_EQ(fork->pages()[0], table.pages()[0]);
  EXPECT_NE(fork->pages()[1], table.pages()[1]);
  EXPECT_EQ(copies, (std::vector<SlotCopy>{{table.Slot(4), fork->Slot(4)},
                                           {table.Slot(5), fork->Slot(5)}}));
  EXPECT_EQ(pool.references(table.pages()[0]), 2);
}

TEST(PageTable, ForkWithoutRoomChangesNothing) {
  PagePool pool(3);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 11);
  std::vector<SlotCopy> copies;
  EXPECT_EQ(table.Fork(11, &copies).status().code(), Code::kResourceExhausted);
  EXPECT_TRUE(copies.empty());
  EXPECT_EQ(pool.references(table.pages()[0]), 1);
  EXPECT_TRUE(table.Fork(8, &copies).ok());
}

TEST(PageTable, NeverWritesSharedPages) {
  PagePool pool(8);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 8);
  std::vector<SlotCopy> copies;
  const Result<PageTable> fork = table.Fork(8, &copies);
  ASSERT_TRUE(fork.ok());
  table.Truncate(6);
  const int32_t shared = table.pages()[1];
  EXPECT_EQ(table.PagesNeeded(7), 1);
  copies = ReserveAndAppend(table, 1);
  EXPECT_NE(table.pages()[1], shared);
  EXPECT_EQ(fork->pages()[1], shared);
  EXPECT_EQ(copies, (std::vector<SlotCopy>{{shared * kPageTokens, table.Slot(4)},
                                           {shared * kPageTokens + 1, table.Slot(5)}}));
}

TEST(PageTable, KeepPathMovesOnlyDisplacedNodes) {
  PagePool pool(8);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 3);
  //  -1 -> 0 -> 2 -> 4
  //     -> 1 -> 3
  ReserveAndAppend(table, 5, {-1, -1, 0, 1, 2});
  const std::vector<int32_t> before = {table.Slot(3), table.Slot(4), table.Slot(5), table.Slot(6),
                                       table.Slot(7)};
  std::vector<SlotCopy> copies;
  table.KeepPath(std::vector<int32_t>{0, 2, 4}, &copies);
  EXPECT_EQ(table.length(), 6);
  EXPECT_EQ(copies, (std::vector<SlotCopy>{{before[2], before[1]}, {before[4], before[2]}}));
}

TEST(PageTable, EmptyKeepPathDropsLastAppend) {
  PagePool pool(8);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 3);
  ReserveAndAppend(table, 5, {-1, -1, 0, 1, 2});
  std::vector<SlotCopy> copies;
  table.KeepPath({}, &copies);
  EXPECT_EQ(table.length(), 3);
  EXPECT_TRUE(copies.empty());
}

TEST(PageTableDeathTest, KeepPathOfNonPathDies) {
  PagePool pool(8);
  PageTable table(&pool, kPageTokens);
  ReserveAndAppend(table, 5, {-1, -1, 0, 1, 2});
  std::vector<SlotCopy> copies;
  EXPECT_DEATH(table.KeepPath(std::vector<int32_t>{1, 2}, &copies), "parent");
  EXPECT_DEATH(table.KeepPath(std::vector<int32_t>{0, 2, 4, 5}, &copies), "node");
}

// Many tables run random operations while a map from slots to numbers simulates the memory: every
// token written gets a new number, copies are performed, and every table must at all times read
// exactly its own history. The page count is checked against the sets of pages in the tables.
class RandomWalk {
 public:
  explicit RandomWalk(uint64_t seed) : random_(seed), pool_(kPages) {}

  void Step() {
    const int action = Below(100);
    if (sequences_.empty() || action < 10) {
      sequences_.push_back({PageTable(&pool_, kPageTokens), {}, 0, {}});
    } else if (action < 50) {
      Append(sequences_[Pick()]);
    } else if (action < 65) {
      KeepPath(sequences_[Pick()]);
    } else if (action < 80) {
      Truncate(sequences_[Pick()]);
    } else if (action < 92) {
      Fork(sequences_[Pick()]);
    } else {
      sequences_.erase(sequences_.begin() + static_cast<ptrdiff_t>(Pick()));
    }
    CheckAll();
  }

  int exhausted() const { return exhausted_; }
  int moved() const { return moved_; }

 private:
  static constexpr int kPages = 24;

  struct Sequence {
    PageTable table;
    std::vector<int> history;  // the number written at each position
    int appended = 0;          // by the last Append; 0 when KeepPath is not allowed
    std::vector<int32_t> parents;
  };

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  size_t Pick() { return static_cast<size_t>(Below(static_cast<int>(sequences_.size()))); }

  void CarryOut(const std::vector<SlotCopy>& copies) {
    for (const SlotCopy& copy : copies) memory_[copy.to] = memory_.at(copy.from);
    moved_ += static_cast<int>(copies.size());
  }

  void Append(Sequence& s) {
    const int count = 1 + Below(9);
    std::vector<SlotCopy> copies;
    const int needed = s.table.PagesNeeded(s.table.length() + count);
    const int free = pool_.free_pages();
    const Status reserved = s.table.Reserve(s.table.length() + count, &copies);
    ASSERT_EQ(reserved.ok(), needed <= free);
    ASSERT_EQ(pool_.free_pages(), reserved.ok() ? free - needed : free);
    if (!reserved.ok()) {
      ++exhausted_;
      return;
    }
    CarryOut(copies);
    s.parents.clear();
    const bool tree = Below(2) == 0;
    for (int i = 0; tree && i < count; ++i) s.parents.push_back(Below(i + 1) - 1);
    const int begin = s.table.length();
    s.table.Append(count, s.parents);
    s.appended = count;
    for (int i = 0; i < count; ++i) {
      memory_[s.table.Slot(begin + i)] = ++last_written_;
      s.history.push_back(last_written_);
    }
  }

  void KeepPath(Sequence& s) {
    if (s.appended == 0) return;
    std::vector<int32_t> path;
    int32_t node = Below(s.appended + 1) - 1;
    while (node >= 0) {
      path.insert(path.begin(), node);
      node = s.parents.empty() ? node - 1 : s.parents[static_cast<size_t>(node)];
    }
    const size_t begin = s.history.size() - static_cast<size_t>(s.appended);
    std::vector<int> kept(s.history.begin(), s.history.begin() + static_cast<ptrdiff_t>(begin));
    for (const int32_t i : path) kept.push_back(s.history[begin + static_cast<size_t>(i)]);
    std::vector<SlotCopy> copies;
    s.table.KeepPath(path, &copies);
    CarryOut(copies);
    s.history = kept;
    s.appended = 0;
  }

  void Truncate(Sequence& s) {
    const int length = Below(s.table.length() + 1);
    s.table.Truncate(length);
    s.history.resize(static_cast<size_t>(length));
    s.appended = 0;
  }

  void Fork(Sequence& s) {
    const int length = Below(s.table.length() + 1);
    std::vector<SlotCopy> copies;
    Result<PageTable> fork = s.table.Fork(length, &copies);
    if (!fork.ok()) {
      ++exhausted_;
      ASSERT_TRUE(copies.empty());
      return;
    }
    CarryOut(copies);
    const std::vector<int> history(s.history.begin(), s.history.begin() + length);
    sequences_.push_back({std::move(*fork), history, 0, {}});
  }

  void CheckAll() {
    std::map<int32_t, int> holders;
    for (const Sequence& s : sequences_) {
      ASSERT_EQ(static_cast<size_t>(s.table.length()), s.history.size());
      for (int i = 0; i < s.table.length(); ++i) {
        ASSERT_EQ(memory_.at(s.table.Slot(i)), s.history[static_cast<size_t>(i)]);
      }
      const std::set<int32_t> own(s.table.pages().begin(), s.table.pages().end());
      ASSERT_EQ(own.size(), s.table.pages().size());
      for (const int32_t page : own) ++holders[page];
    }
    for (int32_t page = 0; page < kPages; ++page) {
      ASSERT_EQ(pool_.references(page), holders.count(page) ? holders[page] : 0);
    }
    ASSERT_EQ(pool_.free_pages(), kPages - static_cast<int>(holders.size()));
  }

  std::mt19937_64 random_;
  PagePool pool_;
  std::vector<Sequence> sequences_;
  std::map<int32_t, int> memory_;  // slot -> its number
  int last_written_ = 0;
  int exhausted_ = 0;
  int moved_ = 0;
};

TEST(PageTable, InvariantsHoldOnRandomWalk) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    RandomWalk walk(seed);
    for (int step = 0; step < 1000; ++step) {
      walk.Step();
      ASSERT_FALSE(::testing::Test::HasFatalFailure()) << "seed " << seed << ", step " << step;
    }
    // The walk has covered the cases that it is meant to test.
    EXPECT_GT(walk.exhausted(), 0);
    EXPECT_GT(walk.moved(), 0);
  }
}

}  // namespace
}  // namespace outrider
