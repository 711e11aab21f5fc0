// Threads that tokenize texts, so that the threads of the gRPC and HTTP servers, which serve every
// connection, never do work proportional to a text. Waiting work is in a fair queue: clients take
// turns, and none ever has every thread, so that its long texts do not delay another's short ones.
//
// Owner: main; outlives the servers. Thread: any.
// When full: Submit refuses at once with kResourceExhausted.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fair_queue.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "verifier/engine/metrics.h"

namespace outrider {

struct TextWorkersOptions {
  int threads = 2;  // with only one, a client could occupy it
  // Limits of the queue. One client may fill half of it.
  size_t max_waiting = 1024;
  size_t max_waiting_bytes = 64 << 20;
};

class TextWorkers {
 public:
  // When to try again after a refusal for lack of room, of the queue or of the memory of grammars;
  // nothing after others.
  static std::optional<Duration> RetryAfter(const Status& status) {
    if (status.code() != Code::kResourceExhausted) return std::nullopt;
    return std::chrono::seconds(1);
  }

  // Either `run` or `refuse` is called, once, unless Cancel removes the work from the queue.
  struct Work {
    std::string client;            // for fair turns
    size_t bytes = 0;              // of the message or body that it holds while it waits
    std::optional<Time> deadline;  // for its turn
    // Runs on a worker. Bounded by the limit of a text; it may post, never block.
    std::function<void()> run;
    // The deadline passed before its turn (on a worker), or the workers stop (from Stop).
    std::function<void(const Status&)> refuse;
  };

  // `clock` and `metrics` must outlive it; `metrics` may be null.
  TextWorkers(const TextWorkersOptions& options, const Clock* clock, VerifierMetrics* metrics);
  ~TextWorkers();

  // Returns a ticket for Cancel, never 0. kResourceExhausted: no room; kUnavailable: after Drain or
  // Stop.
  Result<uint64_t> Submit(Work work) OUTRIDER_EXCLUDES(mu_);
  // The client has gone. Returns true if the work has left the queue, and none of its functions
  // will be called; false if its turn has come.
  bool Cancel(uint64_t ticket) OUTRIDER_EXCLUDES(mu_);
  // Takes no more work. What waits or runs goes on.
  void Drain() OUTRIDER_EXCLUDES(mu_);
  // Whether no work waits or runs.
  bool idle() OUTRIDER_EXCLUDES(mu_);
  // Takes no more work, refuses waiting work with kUnavailable, and returns when running work has
  // ended. Returns false if some still ran after `grace`; the destructor waits for that.
  [[nodiscard]] bool Stop(Duration grace) OUTRIDER_EXCLUDES(mu_);

 private:
  void Run() OUTRIDER_EXCLUDES(mu_);
  void RunTurn(const Work& work);
  void PublishLength() OUTRIDER_REQUIRES(mu_);

  const Clock* const clock_;
  VerifierMetrics* const metrics_;
  Mutex mu_;
  std::condition_variable changed_;
  FairQueue<Work> queue_ OUTRIDER_GUARDED_BY(mu_);
  bool draining_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  size_t running_ OUTRIDER_GUARDED_BY(mu_);    // threads
  size_t turns_ OUTRIDER_GUARDED_BY(mu_) = 0;  // under way
  std::vector<std::thread> threads_;
};

}  // namespace outrider
