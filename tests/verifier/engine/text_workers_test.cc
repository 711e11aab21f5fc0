#include "verifier/engine/text_workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/held_workers.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

using testing::FakeClock;
using ::testing::HasSubstr;
using testing::HeldWorkers;

constexpr Duration kPlenty = testing::kTimeLimit;

// The outcome of one piece of work.
struct Fate {
  std::promise<std::thread::id> ran;
  std::promise<Status> refused;
};

TextWorkers::Work WorkOf(const std::string& client, Fate& fate, size_t bytes = 1) {
  return {.client = client,
          .bytes = bytes,
          .run = [&fate] { fate.ran.set_value(std::this_thread::get_id()); },
          .refuse = [&fate](const Status& status) { fate.refused.set_value(status); }};
}

TEST(TextWorkers, RunOnThreadsOfTheirOwn) {
  const FakeClock clock;
  TextWorkers workers({}, &clock, nullptr);
  Fate fate;
  ASSERT_TRUE(workers.Submit(WorkOf("a", fate)).ok());
  EXPECT_NE(fate.ran.get_future().get(), std::this_thread::get_id());
}

TEST(TextWorkers, AreIdleOnceTextsEnded) {
  const FakeClock clock;
  MetricsRegistry registry;
  VerifierMetrics metrics(registry);
  TextWorkers workers({}, &clock, &metrics);
  EXPECT_TRUE(workers.idle());
  std::promise<void> begun, may_end;
  ASSERT_TRUE(workers
                  .Submit({.client = "a",
                           .run =
                               [&] {
                                 begun.set_value();
                                 may_end.get_future().wait();
                               },
                           .refuse = nullptr})
                  .ok());
  EXPECT_FALSE(workers.idle());
  begun.get_future().wait();
  EXPECT_FALSE(workers.idle());
  workers.Drain();
  Fate late;
  const Status drained = workers.Submit(WorkOf("a", late)).status();
  EXPECT_EQ(drained.code(), Code::kUnavailable);
  EXPECT_EQ(TextWorkers::RetryAfter(drained), std::nullopt) << "another verifier may take it now";
  EXPECT_EQ(metrics.requests_refused_draining.value(), 1);
  may_end.set_value();
  while (!workers.idle()) std::this_thread::yield();
}

TEST(TextWorkers, OneClientLeavesWorkerToOthers) {
  const FakeClock clock;
  TextWorkers workers({.threads = 2}, &clock, nullptr);
  std::promise<void> release;
  Fate second, small;
  ASSERT_TRUE(workers
                  .Submit({.client = "large",
                           .run = [released = release.get_future().share()] { released.wait(); },
                           .refuse = [](const Status&) {}})
                  .ok());
  const auto queued = workers.Submit(WorkOf("large", second));
  ASSERT_TRUE(workers.Submit(WorkOf("small", small)).ok());
  small.ran.get_future().wait();  // hangs if both of the large ones run
  EXPECT_TRUE(workers.Cancel(*queued)) << "still waits for the first of its client";
  release.set_value();
}

TEST(TextWorkers, CancelledWorkNeverRuns) {
  const FakeClock clock;
  HeldWorkers held({}, &clock, nullptr);
  Fate taken_back, other;
  const auto ticket = held.workers().Submit(WorkOf("a", taken_back));
  ASSERT_TRUE(held.workers().Submit(WorkOf("a", other)).ok());
  EXPECT_TRUE(held.workers().Cancel(*ticket));
  EXPECT_FALSE(held.workers().Cancel(*ticket));
  held.Release();
  other.ran.get_future().wait();
  ASSERT_TRUE(held.workers().Stop(kPlenty));
  EXPECT_EQ(taken_back.ran.get_future().wait_for(Duration::zero()), std::future_status::timeout);
}

TEST(TextWorkers, RefuseBeyondQueueAndDeadline) {
  FakeClock clock;
  MetricsRegistry registry;
  VerifierMetrics metrics(registry);
  HeldWorkers held({.max_waiting = 8, .max_waiting_bytes = 100}, &clock, &metrics);
  Fate late, waiting, refused;
  TextWorkers::Work work = WorkOf("a", late);
  work.deadline = clock.Now() + std::chrono::seconds(1);
  ASSERT_TRUE(held.workers().Submit(std::move(work)).ok());
  ASSERT_TRUE(held.workers().Submit(WorkOf("b", waiting, 90)).ok());
  EXPECT_EQ(metrics.tokenizer_requests_waiting.value(), 2);
  const Status full = held.workers().Submit(WorkOf("c", refused, 10)).status();
  EXPECT_EQ(full.code(), Code::kResourceExhausted);
  EXPECT_GT(TextWorkers::RetryAfter(full), Duration::zero());
  EXPECT_EQ(metrics.requests_refused_tokenizer_queue.value(), 1);
  clock.Advance(std::chrono::seconds(2));
  held.Release();
  EXPECT_EQ(late.refused.get_future().get().code(), Code::kDeadlineExceeded);
  waiting.ran.get_future().wait();
}

TEST(TextWorkers, StopRefusesWaitingTexts) {
  const FakeClock clock;
  HeldWorkers held({}, &clock, nullptr);
  Fate waiting, refused;
  ASSERT_TRUE(held.workers().Submit(WorkOf("a", waiting)).ok());
  std::thread stop([&] { EXPECT_TRUE(held.workers().Stop(kPlenty)); });
  EXPECT_EQ(waiting.refused.get_future().get().code(), Code::kUnavailable);
  EXPECT_EQ(held.workers().Submit(WorkOf("a", refused)).status().code(), Code::kUnavailable);
  held.Release();
  stop.join();
}

TEST(TextWorkers, StopReturnsWhileATextRuns) {
  const FakeClock clock;
  HeldWorkers held({}, &clock, nullptr);
  EXPECT_FALSE(held.workers().Stop(std::chrono::milliseconds(1)));
  held.Release();
  EXPECT_TRUE(held.workers().Stop(kPlenty));
}

// Every piece of work ends in exactly one way, whatever threads do concurrently.
TEST(TextWorkers, WorkEndsOnceUnderManyThreads) {
  const FakeClock clock;
  constexpr int kThreads = 4, kEach = 500;
  std::vector<std::atomic<int>> ends(kThreads * kEach);
  {
    TextWorkers workers({.threads = 3, .max_waiting = 64, .max_waiting_bytes = 1000}, &clock,
                        nullptr);
    std::vector<std::thread> fronts;
    for (int thread = 0; thread < kThreads; ++thread) {
      fronts.emplace_back([&, thread] {
        for (int i = 0; i < kEach; ++i) {
          std::atomic<int>& end = ends[static_cast<size_t>(thread * kEach + i)];
          const auto ticket = workers.Submit({.client = std::to_string(i % 3),
                                              .bytes = static_cast<size_t>(i % 20),
                                              .run = [&end] { ++end; },
                                              .refuse = [&end](const Status&) { ++end; }});
          if (!ticket.ok() || (i % 2 == 0 && workers.Cancel(*ticket))) ++end;
        }
      });
    }
    for (std::thread& front : fronts) front.join();
  }
  for (const std::atomic<int>& end : ends) ASSERT_EQ(end, 1);
}

}  // namespace
}  // namespace outrider
