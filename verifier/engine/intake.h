// Passes requests from the servers (gRPC, HTTP) to the engine, and their cancellation, from any
// thread.
//
// Owner: main; outlives the servers. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "verifier/engine/engine_thread.h"

namespace outrider {

// How a request ends whose client has hung up.
inline Status ClientGone() { return Status(Code::kCancelled, "the client has gone"); }

class Intake {
 public:
  // `after`: when to try again, if that may help.
  using RefusedFn = std::function<void(const Status& status, std::optional<Duration> after)>;

  // Both must outlive it.
  Intake(Engine* engine, EngineThread* thread) : engine_(engine), thread_(thread) {}

  // The id of a new request, unique over all servers.
  uint64_t NewId() { return next_id_++; }

  // See Engine::Submit. A request that the engine does not take is refused at once (the queue is
  // full) or from the engine thread; no sink is called.
  void Submit(std::vector<RequestChoice> choices, const RefusedFn& refused);
  void Submit(uint64_t id, GenerationRequest request, std::shared_ptr<GenerationSink> sink,
              const RefusedFn& refused);
  // Ends it with ClientGone. `then` runs on the engine thread afterwards, even if the engine has no
  // such request.
  void Cancel(uint64_t id, std::function<void()> then = nullptr);

 private:
  Engine* engine_;
  EngineThread* thread_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace outrider
