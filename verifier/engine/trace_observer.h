// Records the spans of traced requests.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "verifier/engine/engine_observer.h"
#include "verifier/engine/session_trace.h"

namespace outrider {

class TraceObserver final : public EngineObserver {
 public:
  // `tracer` must outlive it.
  explicit TraceObserver(Tracer* tracer) : tracer_(tracer) {}

  void OnSubmitted(const Session& session) override;
  void OnRound(const Session& session, const Chunk& chunk, Time now) override;
  void OnEnded(const Session& session, const Status& status, Time now) override;

 private:
  Tracer* const tracer_;
  std::map<uint64_t, std::unique_ptr<SessionTrace>> traces_;  // by session; only of traced ones
};

}  // namespace outrider
