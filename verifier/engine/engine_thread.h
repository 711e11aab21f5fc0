// The thread that runs an Engine: runs posted tasks, steps while there is work, and otherwise
// sleeps until the engine's next deadline or a post. It starts with this object.
//
// Thread: TryPost and Post from any; the rest from the owner.
#pragma once

#include <functional>
#include <thread>

#include "common/base/inbox.h"
#include "verifier/engine/engine.h"

namespace outrider {

class EngineThread {
 public:
  // Runs on the engine thread, in the order of posting.
  using Task = std::function<void()>;

  explicit EngineThread(Engine* engine);
  ~EngineThread();

  // Returns false, and drops the task, if the inbox is full or the thread is stopping.
  [[nodiscard]] bool TryPost(Task task);
  // For tasks that must arrive: a bounded number per stream or call.
  void Post(Task task);
  // Runs what was posted, then ends the thread. The engine's destructor ends the remaining
  // sessions.
  void Stop();

 private:
  void Run();

  Engine* engine_;
  Inbox<Task> inbox_;
  bool stopping_ = false;  // engine thread only
  std::thread thread_;
};

}  // namespace outrider
