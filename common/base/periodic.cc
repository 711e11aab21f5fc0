#include "common/base/periodic.h"

#include <utility>

namespace outrider {

Periodic::Periodic(Duration period, std::function<void()> call)
    : period_(period), call_(std::move(call)), thread_([this] { Run(); }) {}

Periodic::~Periodic() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
    stopped_.notify_all();
  }
  thread_.join();
}

void Periodic::Run() {
  Time next = std::chrono::steady_clock::now();
  while (true) {
    call_();
    next += period_;
    MutexLock lock(mu_);
    while (!stopping_ && lock.WaitUntil(stopped_, next) != std::cv_status::timeout) {
    }
    if (stopping_) return;
  }
}

}  // namespace outrider
