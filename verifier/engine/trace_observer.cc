#include "verifier/engine/trace_observer.h"

#include <utility>

#include "verifier/engine/session.h"

namespace outrider {

void TraceObserver::OnSubmitted(const Session& session) {
  auto trace = SessionTrace::Open(tracer_, session.request);
  if (trace != nullptr) traces_.emplace(session.id, std::move(trace));
}

void TraceObserver::OnRound(const Session& session, const Chunk& chunk, Time now) {
  const auto it = traces_.find(session.id);
  if (it != traces_.end()) it->second->OnRound(session, chunk, now);
}

void TraceObserver::OnEnded(const Session& session, const Status& status, Time now) {
  const auto it = traces_.find(session.id);
  if (it == traces_.end()) return;
  it->second->End(session, now, status);
  traces_.erase(it);
}

}  // namespace outrider
