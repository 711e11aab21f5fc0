// The threads that tokenize, so that the threads of the fronts, which carry every connection's
// bytes, do no work in proportion to a text. What waits for them stands in a fair queue: clients
// take turns, and one of them never has every thread, so that its long texts do not hold up
// another's short ones.
//
// Owner: main; outlives the fronts. Thread: any.
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
  int threads = 2;  // one alone could be held by one client
  // What may wait; half of it of one client.
  size_t max_waiting = 1024;
  size_t max_waiting_bytes = 64 << 20;
};

class TextWorkers {
 public:
  // After a refusal for want of room, when to try again.
  static constexpr Duration kRetryAfter = std::chrono::seconds(1);

  // Of each work that Submit took and Cancel did not take back, `run` or `refuse` is called once.
  struct Work {
    std::string client;            // whose turn it takes
    size_t bytes = 0;              // that it holds while it waits: of a message or a body
    std::optional<Time> deadline;  // of its turn
    // On a worker. Bounded by the limit of a text; it may post, never wait.
    std::function<void()> run;
    // The deadline came before its turn (on a worker), or the workers stop (from Stop).
    std::function<void(const Status&)> refuse;
  };

  // `clock` and `metrics` must outlive it; `metrics` may be null.
  TextWorkers(const TextWorkersOptions& options, const Clock* clock, VerifierMetrics* metrics);
  ~TextWorkers();

  // A ticket for Cancel, never 0. kResourceExhausted: no room; kUnavailable: stopped.
  Result<uint64_t> Submit(Work work) OUTRIDER_EXCLUDES(mu_);
  // The client has gone. True: the work has left the queue, and nothing of it will be called.
  // False: its turn has come.
  bool Cancel(uint64_t ticket) OUTRIDER_EXCLUDES(mu_);
  // Takes no more work, refuses what waits with kUnavailable, and returns when what runs has ended.
  // False: some of it still ran after `grace`; the destructor waits for that.
  [[nodiscard]] bool Stop(Duration grace) OUTRIDER_EXCLUDES(mu_);

 private:
  void Run() OUTRIDER_EXCLUDES(mu_);
  void RunTurn(const Work& work);
  void TellLength() OUTRIDER_REQUIRES(mu_);

  const Clock* const clock_;
  VerifierMetrics* const metrics_;
  Mutex mu_;
  std::condition_variable changed_;
  FairQueue<Work> queue_ OUTRIDER_GUARDED_BY(mu_);
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  size_t running_ OUTRIDER_GUARDED_BY(mu_);  // threads
  std::vector<std::thread> threads_;
};

}  // namespace outrider
