// Calls of sinks that a step of the engine makes. They wait until its verdicts have been sent to
// the drafters, because a sink wakes threads that write to clients: on a core that they share with
// the engine these would run first, and drafters would wait. Where a device computes, they also
// wait until the next step's forward pass has started, so that it does not start later because of
// them.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace outrider {

class Deliveries {
 public:
  using Call = std::function<void()>;

  // From now on calls wait for Release.
  void Hold() { held_ = true; }
  // From now on calls are made at once, after those that still wait.
  void EndHold() { held_ = false; }
  // Makes the calls that wait, in order.
  void Release() {
    is_making_ = true;
    for (const Call& call : std::exchange(waiting_, {})) call();
    is_making_ = false;
  }
  void ReleaseUnlessHeld() {
    if (!held_) Release();
  }
  void Make(Call call) {
    waiting_.push_back(std::move(call));
    ReleaseUnlessHeld();
  }
  // During a call.
  bool is_making() const { return is_making_; }

 private:
  bool held_ = false, is_making_ = false;
  std::vector<Call> waiting_;
};

}  // namespace outrider
