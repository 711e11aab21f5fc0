// Text workers that are all busy until the test releases them: submitted work waits, so an answer
// must have been computed on another thread.
#pragma once

#include <future>
#include <optional>
#include <string>
#include <thread>

#include "verifier/engine/text_workers.h"

namespace outrider::testing {

class HeldWorkers {
 public:
  HeldWorkers(const TextWorkersOptions& options, const Clock* clock, VerifierMetrics* metrics)
      : workers_(options, clock, metrics), released_(release_.get_future()) {
    for (int i = 0; i < options.threads; ++i) {
      std::promise<void> begun;
      const auto ticket = workers_.Submit({.client = "holder " + std::to_string(i),
                                           .run =
                                               [&begun, released = released_] {
                                                 begun.set_value();
                                                 released.wait();
                                               },
                                           .refuse = [](const Status&) {}});
      OUTRIDER_CHECK(ticket.ok());
      begun.get_future().wait();
    }
  }
  ~HeldWorkers() { Release(); }

  void Release() {
    if (!is_released_) release_.set_value();
    is_released_ = true;
  }
  TextWorkers& workers() { return workers_; }

 private:
  TextWorkers workers_;
  std::promise<void> release_;
  std::shared_future<void> released_;
  bool is_released_ = false;
};

}  // namespace outrider::testing
