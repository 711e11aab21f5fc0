// The one thread that runs an Engine: drains posted work, steps while there is something to do,
// sleeps until the next deadline or post otherwise. The only place of the verifier that waits.
//
// Thread: Post from any; Start and Stop from the owner.
#pragma once

#include <functional>
#include <thread>

#include "common/base/inbox.h"
#include "verifier/engine/engine.h"

namespace outrider {

class EngineThread {
 public:
  // Runs on the engine thread, in order of posting.
  using Task = std::function<void()>;

  explicit EngineThread(Engine* engine);
  ~EngineThread();

  // False: the inbox is full or the thread is stopping; the task is dropped.
  [[nodiscard]] bool TryPost(Task task);
  // For what must arrive: a bounded number per stream or call.
  void Post(Task task);
  // Runs what was posted, then ends the thread. Sessions left are ended by the engine's destructor.
  void Stop();

 private:
  void Run();

  Engine* engine_;
  Inbox<Task> inbox_;
  bool stopping_ = false;  // engine thread only
  std::thread thread_;
};

}  // namespace outrider
