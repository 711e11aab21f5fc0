// The events of a simulation, in order of their time; those of the same time in the order in which
// they were added.
//
// Thread: one owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/base/clock.h"

namespace outrider {

class EventQueue {
 public:
  using Event = std::function<void()>;

  Time now() const { return now_; }

  // An event of the past happens now.
  void At(Time at, Event event) {
    heap_.push_back({std::max(at, now_), order_++, std::move(event)});
    std::push_heap(heap_.begin(), heap_.end(), IsLater);
  }
  void After(Duration delay, Event event) { At(now_ + delay, std::move(event)); }

  // Runs all events up to `end`, including those that they add, and stops there.
  void RunUntil(Time end) {
    while (!heap_.empty() && heap_.front().at <= end) {
      std::pop_heap(heap_.begin(), heap_.end(), IsLater);
      const Entry entry = std::move(heap_.back());
      heap_.pop_back();
      now_ = entry.at;
      entry.event();
    }
    now_ = end;
  }

 private:
  struct Entry {
    Time at;
    uint64_t order;
    Event event;
  };
  static bool IsLater(const Entry& a, const Entry& b) {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
  }

  Time now_{};
  uint64_t order_ = 0;
  std::vector<Entry> heap_;
};

}  // namespace outrider
