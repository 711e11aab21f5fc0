#include "verifier/pool/demand_thread.h"

namespace outrider {

DemandThread::DemandThread(const Engine* engine, DrafterPool* pool, EngineThread* thread,
                           Duration period)
    : engine_(engine), pool_(pool), engine_thread_(thread), period_(period), thread_([this] {
        Run();
      }) {}

DemandThread::~DemandThread() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    stopped_.notify_all();
  }
  thread_.join();
}

void DemandThread::Run() {
  Time next = std::chrono::steady_clock::now();
  while (true) {
    // An engine that is too busy to take the task tells them later.
    (void)engine_thread_->TryPost([engine = engine_, pool = pool_] {
      pool->TellDemand({.running = engine->running(), .waiting = engine->waiting()});
    });
    next += period_;
    MutexLock lock(mu_);
    while (!stopping_ && lock.WaitUntil(stopped_, next) != std::cv_status::timeout) {
    }
    if (stopping_) return;
  }
}

}  // namespace outrider
