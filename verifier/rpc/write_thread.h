// A thread that writes to client streams, so that the engine thread does not: passing a message to
// gRPC serializes it and enters the kernel, which with many sessions takes a considerable part of a
// small model's step. The messages of one caller are written in order.
//
// Thread: Post from any.
// Bound: messages wait here only until the thread has passed them on, which never blocks; each
// stream bounds what then waits for its client.
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
