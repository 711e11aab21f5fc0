#include "common/base/inbox.h"

#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Inbox, KeepsTheOrderOfOnePusher) {
  Inbox<int> inbox(10);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(inbox.TryPush(i));
  EXPECT_THAT(inbox.Drain(std::nullopt), ElementsAre(0, 1, 2));
  EXPECT_THAT(inbox.Take(), IsEmpty());
}

TEST(Inbox, RefusesUntilThereIsRoom) {
  Inbox<int> inbox(2);
  EXPECT_TRUE(inbox.TryPush(1));
  EXPECT_TRUE(inbox.TryPush(2));
  EXPECT_FALSE(inbox.TryPush(3));
  EXPECT_THAT(inbox.Take(), ElementsAre(1, 2));
  EXPECT_TRUE(inbox.TryPush(4));
  EXPECT_THAT(inbox.Take(), ElementsAre(4));
}

TEST(Inbox, UrgentEventsIgnoreTheBound) {
  Inbox<int> inbox(1);
  EXPECT_TRUE(inbox.TryPush(1));
  inbox.PushUrgent(2);
  EXPECT_FALSE(inbox.TryPush(3));
  EXPECT_THAT(inbox.Take(), ElementsAre(1, 2));
}

TEST(Inbox, PastDeadlineDoesNotWait) {
  Inbox<int> inbox(1);
  EXPECT_THAT(inbox.Drain(Time{}), IsEmpty());
}

TEST(Inbox, CloseStillDrainsPushedItems) {
  Inbox<int> inbox(4);
  EXPECT_TRUE(inbox.TryPush(1));
  inbox.Close();
  EXPECT_FALSE(inbox.TryPush(2));
  inbox.PushUrgent(3);
  EXPECT_THAT(inbox.Drain(std::nullopt), ElementsAre(1));
  EXPECT_THAT(inbox.Drain(std::nullopt), IsEmpty());
}

TEST(Inbox, PushWakesOwner) {
  Inbox<std::unique_ptr<int>> inbox(1);
  std::jthread pusher([&] { EXPECT_TRUE(inbox.TryPush(std::make_unique<int>(5))); });
  const auto events = inbox.Drain(std::nullopt);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(*events[0], 5);
}

TEST(Inbox, ClosingWakesTheOwner) {
  Inbox<int> inbox(1);
  std::jthread closer([&] { inbox.Close(); });
  EXPECT_THAT(inbox.Drain(std::nullopt), IsEmpty());
}

// Also for the thread sanitizer: many pushers, one owner, nothing lost or duplicated, and the order
// of each pusher kept.
TEST(Inbox, ManyPushersLoseNothing) {
  constexpr int kPushers = 4;
  constexpr int kEach = 2000;
  struct Event {
    int pusher;
    int number;
  };
  Inbox<Event> inbox(64);
  std::vector<std::jthread> pushers;
  pushers.reserve(kPushers);
  for (int p = 0; p < kPushers; ++p) {
    pushers.emplace_back([&inbox, p] {
      for (int i = 0; i < kEach; ++i) {
        while (!inbox.TryPush({p, i})) std::this_thread::yield();
      }
    });
  }
  std::vector<int> next(kPushers, 0);
  for (int received = 0; received < kPushers * kEach;) {
    for (const Event& event : inbox.Drain(std::nullopt)) {
      EXPECT_EQ(event.number, next[static_cast<size_t>(event.pusher)]++);
      ++received;
    }
  }
  EXPECT_THAT(next, ::testing::Each(kEach));
}

}  // namespace
}  // namespace outrider
