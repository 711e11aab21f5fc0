// The spans of one generation below its request's: waiting in the queue, prefill (including the
// first token) and decoding, with its rounds. They are kept while the generation runs and recorded
// together at its end.
//
// The first rounds have spans of their own, and of the others the slowest one has: a long text has
// thousands of similar rounds, and the slowest is the one to look for.
//
// Thread: the engine's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/trace/span.h"
#include "common/trace/tracer.h"
#include "verifier/engine/request.h"
#include "verifier/engine/sink.h"

namespace outrider {

struct Session;

class SessionTrace {
 public:
  static constexpr int kRoundSpans = 32;

  // nullptr: the request is not recorded.
  static std::unique_ptr<SessionTrace> Open(Tracer* tracer, const GenerationRequest& request);

  // A round has produced `chunk`. The session is still in the state before it: its planner has not
  // concluded, its last token is that of the round before.
  void OnRound(const Session& session, const Chunk& chunk, Time now);
  // Records the spans. The phase in which an error occurred gets its status.
  void End(const Session& session, Time now, const Status& status);

 private:
  struct Round {
    uint32_t round = 0;
    Time begin;
    Time end;
    std::string source;  // the controller's arm, else "drafter" or "plain"
    int tokens = 0, drafted = 0, accepted = 0;
  };

  SessionTrace(Tracer* tracer, const TraceLink& link) : tracer_(tracer), link_(link) {}
  Span Child(const SpanId& parent, std::string name, Time start, Time end) const;

  Tracer* const tracer_;
  const TraceLink link_;
  std::vector<Round> first_;
  std::optional<Round> slowest_;  // of the rounds without a span
};

}  // namespace outrider
