// How the fronts (gRPC, HTTP) hand requests to the engine and take them back, whatever thread they
// are on.
//
// Owner: main; outlives the fronts. Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "verifier/engine/engine_thread.h"

namespace outrider {

class Intake {
 public:
  // `after`: when to try again, where that may help.
  using RefusedFn = std::function<void(const Status& status, std::optional<Duration> after)>;

  // Both must outlive it.
  Intake(Engine* engine, EngineThread* thread) : engine_(engine), thread_(thread) {}

  // Of a request to come, over all fronts.
  uint64_t NewId() { return next_id_++; }

  // As Engine::Submit. One that the engine does not take is refused at once (the queue is full) or
  // from the engine thread, and its sink is not called.
  void Submit(uint64_t id, GenerationRequest request, std::shared_ptr<GenerationSink> sink,
              const RefusedFn& refused);
  // The client is gone. `then` runs on the engine thread afterwards, also where the engine has no
  // such request.
  void Cancel(uint64_t id, std::function<void()> then = nullptr);

 private:
  Engine* engine_;
  EngineThread* thread_;
  std::atomic<uint64_t> next_id_{1};
};

}  // namespace outrider
