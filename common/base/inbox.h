// A bounded mailbox: many threads push, one owner thread drains. Pushing never blocks; if the inbox
// is full, the pusher tells its peer (Busy, RESOURCE_EXHAUSTED).
//
// Thread: any for TryPush and PushUrgent; the owner for the rest.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace outrider {

template <class Event>
class Inbox {
 public:
  explicit Inbox(size_t capacity) : capacity_(capacity) {}

  // Returns false if full or closed; the event is then dropped.
  [[nodiscard]] bool TryPush(Event event) { return Push(std::move(event), capacity_); }

  // For events that must arrive (a peer left, a request was cancelled); ignores the bound. Callers
  // push a bounded number of these per object that they own.
  void PushUrgent(Event event) { (void)Push(std::move(event), static_cast<size_t>(-1)); }

  // Takes all events. If there are none, waits for the first one until `until`; nullopt waits
  // without limit. Returns at once when closed.
  std::vector<Event> Drain(std::optional<Time> until) {
    MutexLock lock(mu_);
    while (events_.empty() && !closed_) {
      if (!until.has_value()) {
        lock.Wait(arrived_);
      } else if (lock.WaitUntil(arrived_, *until) == std::cv_status::timeout) {
        break;
      }
    }
    return std::exchange(events_, {});
  }

  // Takes all events without waiting.
  std::vector<Event> Take() {
    MutexLock lock(mu_);
    return std::exchange(events_, {});
  }

  void Close() {
    MutexLock lock(mu_);
    closed_ = true;
    arrived_.notify_all();
  }

 private:
  bool Push(Event event, size_t capacity) {
    {
      MutexLock lock(mu_);
      if (closed_ || events_.size() >= capacity) return false;
      events_.push_back(std::move(event));
    }
    // Not under the lock: the owner would wake up only to wait for it.
    arrived_.notify_one();
    return true;
  }

  const size_t capacity_;
  Mutex mu_;
  std::condition_variable arrived_;
  std::vector<Event> events_ OUTRIDER_GUARDED_BY(mu_);
  bool closed_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
