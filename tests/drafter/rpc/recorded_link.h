// Records what links send to the drafting loop and to their observer.
//
// Thread: any.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "drafter/rpc/verifier_links.h"

namespace outrider {

// Replaces the loop: records incoming events.
class RecordedEvents final : public LinkEvents {
 public:
  bool Push(LinkEvent event) override {
    {
      MutexLock lock(mu_);
      if (full_) return false;
      events_.push_back(event);
      if (!holds_room_) events_.back().room = nullptr;
      changed_.notify_all();
    }
    if (on_event_) on_event_(event);
    return true;
  }
  void PushUrgent(LinkEvent event) override {
    MutexLock lock(mu_);
    events_.push_back(std::move(event));
    changed_.notify_all();
  }

  // Waits for the n-th event of a kind and returns it; fails the test after a minute.
  template <class Kind>
  LinkEvent Await(int n = 1) {
    const Time deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(mu_);
    while (true) {
      int seen = 0;
      for (const LinkEvent& event : events_) {
        if (std::holds_alternative<Kind>(event.message) && ++seen == n) return event;
      }
      if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) {
        ADD_FAILURE() << "the event did not come";
        return {};
      }
    }
  }

  template <class Kind>
  int Count() {
    MutexLock lock(mu_);
    return static_cast<int>(std::count_if(
        events_.begin(), events_.end(),
        [](const LinkEvent& event) { return std::holds_alternative<Kind>(event.message); }));
  }

  void set_full(bool full) {
    MutexLock lock(mu_);
    full_ = full;
  }
  // Until HandleAll, events wait as if the loop had not handled them yet.
  void HoldRoom() {
    MutexLock lock(mu_);
    holds_room_ = true;
  }
  void HandleAll() {
    std::vector<std::shared_ptr<void>> rooms;
    MutexLock lock(mu_);
    holds_room_ = false;
    for (LinkEvent& event : events_) rooms.push_back(std::exchange(event.room, nullptr));
  }
  // Called on gRPC's thread with every event; must be set before the link is created.
  std::function<void(LinkEvent&)> on_event_;

 private:
  Mutex mu_;
  std::condition_variable changed_;
  std::vector<LinkEvent> events_ OUTRIDER_GUARDED_BY(mu_);
  bool full_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool holds_room_ OUTRIDER_GUARDED_BY(mu_) = false;
};

class RecordedObserver final : public LinksObserver {
 public:
  void OnAttached(const std::string&, const DrafterWelcome&) override { Change(&attached_); }
  void OnDetached(const std::string&) override { Change(&detached_); }
  void OnLost(const std::string&) override { Change(&lost_); }
  void OnDemand(const std::string&, const DrafterDemand& demand) override {
    MutexLock lock(mu_);
    demands_.push_back(demand);
    changed_.notify_all();
  }
  void OnRefused(const std::string&, const Status& why) override {
    MutexLock lock(mu_);
    refusals_.push_back(why);
    changed_.notify_all();
  }
  void OnVerifiers(int count) override {
    MutexLock lock(mu_);
    verifiers_ = count;
    changed_.notify_all();
  }
  void OnSubset(int held, int leaving, int other_zone) override {
    MutexLock lock(mu_);
    held_ = held;
    leaving_ = leaving;
    most_leaving_ = std::max(most_leaving_, leaving);
    other_zone_ = other_zone;
    changed_.notify_all();
  }
  void OnStreamLeft(SubsetReason why) override {
    MutexLock lock(mu_);
    left_.push_back(why);
    changed_.notify_all();
  }
  void OnLookupFailed(const std::string&, const Status&) override { Change(&lookups_failed_); }

  // Waits until the observer has seen it; returns false if it has not within a minute.
  bool AwaitVerifiers(int count) { return AwaitCount(&verifiers_, count, /*exactly=*/true); }
  bool AwaitHeld(int count) { return AwaitCount(&held_, count, /*exactly=*/true); }
  bool AwaitLeaving(int count) { return AwaitCount(&leaving_, count, /*exactly=*/true); }
  bool AwaitMostLeaving(int count) { return AwaitCount(&most_leaving_, count); }
  bool AwaitOtherZone(int count) { return AwaitCount(&other_zone_, count, /*exactly=*/true); }
  // From then on a stream that is no longer wanted is drained, not cancelled.
  bool AwaitAttached(int count) { return AwaitCount(&attached_, count); }
  bool AwaitDetached(int count) { return AwaitCount(&detached_, count); }
  bool AwaitLookupsFailed(int count) { return AwaitCount(&lookups_failed_, count); }
  std::vector<Status> AwaitRefusals(size_t n) {
    const Time deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(mu_);
    while (refusals_.size() < n) {
      if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) break;
    }
    return refusals_;
  }
  std::vector<DrafterDemand> AwaitDemands(size_t n) {
    const Time deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(mu_);
    while (demands_.size() < n) {
      if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) break;
    }
    return demands_;
  }
  std::vector<SubsetReason> left() {
    MutexLock lock(mu_);
    return left_;
  }
  int attached() {
    MutexLock lock(mu_);
    return attached_;
  }
  int detached() {
    MutexLock lock(mu_);
    return detached_;
  }
  int lost() {
    MutexLock lock(mu_);
    return lost_;
  }

 private:
  void Change(int* count) {
    MutexLock lock(mu_);
    ++*count;
    changed_.notify_all();
  }

  bool AwaitCount(const int* value, int count, bool exactly = false) {
    const Time deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    MutexLock lock(mu_);
    while (exactly ? *value != count : *value < count) {
      if (lock.WaitUntil(changed_, deadline) == std::cv_status::timeout) return false;
    }
    return true;
  }

  Mutex mu_;
  std::condition_variable changed_;
  int attached_ = 0;
  int detached_ = 0;
  int lost_ = 0;
  int lookups_failed_ = 0;
  int verifiers_ = -1;
  int held_ = -1;
  int leaving_ = -1;
  int most_leaving_ = 0;
  int other_zone_ = -1;
  std::vector<SubsetReason> left_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<DrafterDemand> demands_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<Status> refusals_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
