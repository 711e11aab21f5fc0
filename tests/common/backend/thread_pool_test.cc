#include "common/backend/cpu/thread_pool.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/time_limit.h"

namespace outrider {
namespace {

std::unique_ptr<ThreadPool> MakePool(int threads) {
  Result<std::unique_ptr<ThreadPool>> pool = ThreadPool::Create(threads, {});
  EXPECT_TRUE(pool.ok());
  return std::move(pool).value();
}

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 4}) {
    const auto pool = MakePool(threads);
    EXPECT_EQ(pool->threads(), threads);
    for (const int tasks : {0, 1, 2, 7, 64, 1001}) {
      for (const int grain : {1, 4, 100}) {
        // Plain ints: the pool alone must order these writes before the reads below.
        std::vector<int> runs(tasks);
        pool->Run(tasks, grain, [&](int begin, int end, int thread) {
          EXPECT_GE(thread, 0);
          EXPECT_LT(thread, threads);
          for (int i = begin; i < end; ++i) ++runs[i];
        });
        EXPECT_EQ(runs, std::vector<int>(tasks, 1)) << tasks << " tasks by " << grain;
      }
    }
  }
}

TEST(ThreadPool, OneThreadRunsOnTheCaller) {
  const auto pool = MakePool(1);
  int calls = 0;
  pool->Run(1000, 1, [&, caller = std::this_thread::get_id()](int begin, int end, int thread) {
    ++calls;
    EXPECT_EQ(begin, 0);
    EXPECT_EQ(end, 1000);
    EXPECT_EQ(thread, 0);
    EXPECT_EQ(std::this_thread::get_id(), caller);
  });
  EXPECT_EQ(calls, 1);
}

TEST(ThreadPool, ManyShortRunsFollowEachOther) {
  const auto pool = MakePool(3);
  std::vector<int> sums(48);
  for (int run = 0; run < 20000; ++run) {
    pool->Run(48, 1, [&](int begin, int end, int) {
      for (int i = begin; i < end; ++i) sums[i] += run;
    });
  }
  EXPECT_EQ(sums, std::vector<int>(48, 19999 * 20000 / 2));
}

// Each thread has its own working memory: no two ranges run under one number at a time.
TEST(ThreadPool, ThreadNumbersAreNeverShared) {
  const auto pool = MakePool(4);
  std::vector<int> scratch(4);  // unsynchronised, so that the thread sanitizer detects races
  for (int run = 0; run < 500; ++run) {
    pool->Run(64, 1, [&](int begin, int end, int thread) { scratch[thread] += end - begin; });
  }
  EXPECT_EQ(scratch[0] + scratch[1] + scratch[2] + scratch[3], 64 * 500);
}

TEST(ThreadPool, WorkersHelp) {
  const auto pool = MakePool(2);
  std::atomic<int> inside{0};
  // Each side waits until both have started, so only two concurrent threads finish.
  const auto deadline = std::chrono::steady_clock::now() + testing::kTimeLimit;
  pool->Run(2, 1, [&](int, int, int) {
    ++inside;
    while (inside < 2 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  EXPECT_EQ(inside, 2);
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

int CoresOfThisThread() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return CPU_COUNT(&cores);
}

// A model is warmed up by another thread than the one that serves.
TEST(ThreadPool, PinsEachThreadThatComputes) {
  const int free_cores = CoresOfThisThread();
  if (free_cores < 2) GTEST_SKIP() << "this process may use one core only: skipped";
  cpu_set_t cores;
  ASSERT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  int core = 0;
  while (!CPU_ISSET(core, &cores)) ++core;
  const auto pool = ThreadPool::Create(1, {core}).value();
  for (int thread = 0; thread < 3; ++thread) {
    std::thread([&] {
      EXPECT_EQ(CoresOfThisThread(), free_cores);
      pool->Run(1, 1, [](int, int, int) {});
      EXPECT_EQ(CoresOfThisThread(), 1);
    }).join();
  }
}

TEST(ThreadPool, EndsIdleOrAfterWork) {
  for (int i = 0; i < 200; ++i) {
    const auto pool = MakePool(3);
    if (i % 2 == 0) pool->Run(8, 1, [](int, int, int) {});
  }
}

}  // namespace
}  // namespace outrider
