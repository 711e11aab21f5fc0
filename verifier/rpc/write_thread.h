// A thread that writes to client streams, so that the engine thread does not: handing a message to
// gRPC serializes it and enters the kernel, which at many sessions takes a fair part of a small
// model's step. What one caller hands over is written in its order.
//
// Thread: Post from any.
// Bound: what is handed over waits here only until the thread has passed it on, which never waits;
// each stream bounds what then waits for its client.
#pragma once

#include <functional>
#include <thread>

#include "common/base/inbox.h"

namespace outrider {

class WriteThread {
 public:
  using Task = std::function<void()>;

  WriteThread();
  // Runs what was posted before, then ends.
  ~WriteThread();

  void Post(Task task) { inbox_.PushUrgent(std::move(task)); }

 private:
  void Run();

  Inbox<Task> inbox_;
  std::thread thread_;
};

}  // namespace outrider
