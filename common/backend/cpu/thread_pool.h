// The compute threads of one CPU backend. Run() splits a range of independent tasks over them and
// returns when all are done; the calling thread takes part.
//
// Waiting: an idle worker spins for a few microseconds (the gap between two ops), then sleeps in
// the kernel. Tasks are claimed in chunks, so a worker that the scheduler delays costs nothing: the
// others take its share. Two pools on too few cores therefore slow each other down no more than two
// single threads would.
//
// Owner: the backend. Thread: Run from one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "common/base/status.h"

namespace outrider {

class ThreadPool {
 public:
  // `threads` includes the caller. Run pins its caller to cores[0] for good, which threads inherit
  // that the caller starts later; cores[i] is for worker i; empty: not pinned. kInvalidArgument for
  // a core that this process may not use.
  static Result<std::unique_ptr<ThreadPool>> Create(int threads, const std::vector<int>& cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread) for disjoint ranges that cover [0, tasks), each of at least
  // `grain` tasks (except the last). `thread`, 0 <= thread < threads(), is the number of the thread
  // that runs it. Without workers, or for a single grain, that is one plain call.
  template <class Body>
  void Run(int tasks, int grain, const Body& body) {
    if (!cores_.empty() && pinned_core_ != cores_[0]) PinCaller();
    if (workers_.empty() || tasks <= grain) {
      if (tasks > 0) body(0, tasks, 0);
      return;
    }
    RunShared({[](const void* context, int begin, int end, int thread) {
                 (*static_cast<const Body*>(context))(begin, end, thread);
               },
               &body, tasks, 0},
              grain);
  }

 private:
  struct Job {
    void (*call)(const void* context, int begin, int end, int thread) = nullptr;
    const void* context = nullptr;
    int tasks = 0;
    int chunk = 0;  // tasks per chunk
  };

  ThreadPool(int threads, const std::vector<int>& cores);
  void PinCaller();
  void RunShared(Job job, int grain);
  void Work(int thread);
  // Runs chunks of the current job until none is left.
  void RunChunks(int thread);

  static constinit inline thread_local int pinned_core_ = -1;  // of this thread

  const std::vector<int> cores_;
  Job job_;  // written by the caller while no chunk is open, read by whichever thread claimed one
  // The number of the job in the high half, the unclaimed chunks in the low half: claiming one by
  // compare-and-swap can never take it from a later job.
  std::atomic<uint64_t> open_{0};
  std::atomic<uint32_t> unfinished_{0};  // chunks of the current job
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace outrider
