// Admission control before the engine thread. Other threads see the queue's length here, so that a
// request that finds it full is refused at once, without waiting for the forward pass under way.
//
// Owner: the engine. Thread: any for TryEnter and retry_after; the engine thread for the rest. The
// engine's own check at Submit decides; this one only saves work.
#pragma once

#include <atomic>

#include "common/base/clock.h"
#include "common/metrics/registry.h"

namespace outrider {

class AdmissionGate {
 public:
  // `refused` counts refused requests and must outlive it; nullptr: they are not counted.
  explicit AdmissionGate(int max_waiting, Counter* refused = nullptr)
      : max_waiting_(max_waiting), refused_(refused) {}

  // Counts a request's generations as on their way to the engine. Returns false if those that wait
  // and those on their way leave too little room in the queue for all of them.
  [[nodiscard]] bool TryEnter(int generations = 1) {
    if (coming_.fetch_add(generations) + waiting_.load() + generations <= max_waiting_) return true;
    coming_.fetch_sub(generations);
    if (refused_ != nullptr) refused_->Increment();
    return false;
  }
  // A request that entered has arrived or will not come.
  void Leave(int generations = 1) { coming_.fetch_sub(generations); }
  // One that entered is refused, as the engine is too busy to take it.
  void TurnAway(int generations = 1) {
    Leave(generations);
    if (refused_ != nullptr) refused_->Increment();
  }

  void Publish(int waiting, Duration retry_after) {
    waiting_ = waiting;
    retry_after_ = retry_after;
  }
  Duration retry_after() const { return retry_after_; }

 private:
  const int max_waiting_;
  Counter* const refused_;
  std::atomic<int> coming_ = 0;
  std::atomic<int> waiting_ = 0;
  std::atomic<Duration> retry_after_{std::chrono::seconds(1)};
};

}  // namespace outrider
