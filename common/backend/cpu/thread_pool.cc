#include "common/backend/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <string>

#include "common/backend/cpu/flush_denormals.h"

namespace outrider {
namespace {

// About 10 us: longer than the gap between two ops of a step, much shorter than a scheduler slice.
constexpr int kSpins = 200;
// Chunks per thread: enough to absorb a delayed thread, few enough to cost nothing.
constexpr int kChunksPerThread = 4;

constexpr uint64_t kJobOne = uint64_t{1} << 32;
uint32_t Unclaimed(uint64_t open) { return static_cast<uint32_t>(open); }

void Pause() {
#if defined(__SSE2__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

void Pin(pthread_t thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  // Create checked the core; if it has gone offline since, running unpinned is slower but correct.
  (void)pthread_setaffinity_np(thread, sizeof set, &set);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int threads, const std::vector<int>& cores) {
  if (threads < 1) return InvalidArgument("thread pool: " + std::to_string(threads) + " threads");
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  (void)sched_getaffinity(0, sizeof allowed, &allowed);
  for (const int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed)) {
      return InvalidArgument("thread pool: core " + std::to_string(core) +
                             " is not one of those that this process may use");
    }
  }
  return std::unique_ptr<ThreadPool>(new ThreadPool(threads, cores));
}

ThreadPool::ThreadPool(int threads, const std::vector<int>& cores) : cores_(cores) {
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { Work(i); });
    if (i < static_cast<int>(cores_.size())) Pin(workers_.back().native_handle(), cores_[i]);
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  open_.fetch_add(kJobOne);
  open_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::PinCaller() {
  Pin(pthread_self(), cores_[0]);
  pinned_core_ = cores_[0];
}

void ThreadPool::RunShared(Job job, int grain) {
  const int chunks_wanted = threads() * kChunksPerThread;
  job.chunk = std::max(grain, (job.tasks + chunks_wanted - 1) / chunks_wanted);
  const auto chunks = static_cast<uint32_t>((job.tasks + job.chunk - 1) / job.chunk);
  job_ = job;
  unfinished_.store(chunks, std::memory_order_relaxed);
  const uint64_t last = open_.load(std::memory_order_relaxed);
  open_.store((last & ~(kJobOne - 1)) + kJobOne + chunks, std::memory_order_release);
  open_.notify_all();
  RunChunks(0);
  for (int spin = 0; spin < kSpins; ++spin) {
    if (unfinished_.load(std::memory_order_acquire) == 0) return;
    Pause();
  }
  while (const uint32_t left = unfinished_.load(std::memory_order_acquire)) unfinished_.wait(left);
}

void ThreadPool::RunChunks(int thread) {
  uint64_t open = open_.load(std::memory_order_acquire);
  while (Unclaimed(open) > 0) {
    if (!open_.compare_exchange_weak(open, open - 1, std::memory_order_acquire)) continue;
    const int begin = static_cast<int>(Unclaimed(open) - 1) * job_.chunk;
    job_.call(job_.context, begin, std::min(begin + job_.chunk, job_.tasks), thread);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    open = open_.load(std::memory_order_acquire);
  }
}

void ThreadPool::Work(int thread) {
  const FlushDenormals flush;
  while (true) {
    RunChunks(thread);
    // Read before stop_: a stop in between changes open_, so that the wait returns.
    const uint64_t seen = open_.load();
    if (stop_.load()) return;
    if (Unclaimed(seen) > 0) continue;
    int spin = 0;
    while (spin < kSpins && open_.load(std::memory_order_acquire) == seen) {
      Pause();
      ++spin;
    }
    if (spin == kSpins) open_.wait(seen);
  }
}

}  // namespace outrider
