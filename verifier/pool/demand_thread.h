// Tells the drafters, once a period, how many drafters the verifier wants.
//
// Owner: main; the engine thread must run as long as it does. Thread: has one of its own, which
// only posts to the engine thread.
#pragma once

#include <condition_variable>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/pool/drafter_pool.h"

namespace outrider {

class DemandThread {
 public:
  // All must outlive the engine thread's last task.
  DemandThread(const Engine* engine, DrafterPool* pool, EngineThread* thread,
               Duration period = std::chrono::seconds(1));
  ~DemandThread();

 private:
  void Run();

  const Engine* const engine_;
  DrafterPool* const pool_;
  EngineThread* const engine_thread_;
  const Duration period_;
  Mutex mu_;
  std::condition_variable stopped_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
