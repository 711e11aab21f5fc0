// Calls a function once a period, on a thread of its own, from its construction to its destruction.
//
// Thread: the owner's.
#pragma once

#include <condition_variable>
#include <functional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

class Periodic {
 public:
  // The first call comes at once, and one that is late does not put off those after it.
  Periodic(Duration period, std::function<void()> call);
  // Waits for the end of a running call, not of the period.
  ~Periodic();

 private:
  void Run() OUTRIDER_EXCLUDES(mu_);

  const Duration period_;
  const std::function<void()> call_;
  Mutex mu_;
  std::condition_variable stopped_;
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
