// Looks at the verifier once a second and answers for the status page: /status and /status.json on
// the port of the metrics, where operators look and clients do not.
//
// The engine is asked by its own thread's inbox and never waited for: who asks for the page gets
// what was seen last, with its age.
//
// Owner: main, between the engine's thread and the exporter's end. Thread: has its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/metrics/exporter.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/drafter_pool.h"
#include "verifier/status/status_history.h"

namespace outrider {

class StatusBoard {
 public:
  // What it looks at on the engine's thread, which ends before any of it goes.
  struct Watched {
    Engine* engine = nullptr;
    DrafterPool* pool = nullptr;
    VerifierMetrics* metrics = nullptr;
    EngineThread* thread = nullptr;
    Duration every = std::chrono::seconds(1);
  };

  StatusBoard(const Watched& watched, StatusHistory::Served served);
  ~StatusBoard();
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  // The pages may be asked for when the board is gone: they show what it saw last.
  void ServeOn(MetricsExporter& exporter) const;

 private:
  // Shared with tasks under way and with the pages.
  struct Seen {
    Seen(StatusHistory::Served served, Time started) : history(std::move(served), started) {}
    Mutex mu;
    StatusHistory history OUTRIDER_GUARDED_BY(mu);
  };
  void Run() OUTRIDER_EXCLUDES(mu_);

  const Watched watched_;
  const std::shared_ptr<Seen> seen_;
  Mutex mu_;
  std::condition_variable stopped_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
