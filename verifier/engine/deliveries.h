// Calls of sinks that a step of the engine makes. They wait until its verdicts have been sent to
// the drafters, because a sink wakes threads that write to clients: on a core that they share with
// the engine these would run first, and drafters would wait.
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
  // Makes the calls that wait, in order.
  void Release() {
    held_ = false;
    for (const Call& call : std::exchange(waiting_, {})) call();
  }
  // Makes the call, now or at Release.
  void Make(Call call) {
    if (held_) {
      waiting_.push_back(std::move(call));
    } else {
      call();
    }
  }

 private:
  bool held_ = false;
  std::vector<Call> waiting_;
};

}  // namespace outrider
