// One span of a trace, in the words of OpenTelemetry's data model.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/trace/trace_context.h"

namespace outrider {

// Where the process's monotonic clock stands on the wall's. Taken once for all spans of a request
// in one process, so that a step of the wall clock tears none of them from its parent.
class WallAnchor {
 public:
  static WallAnchor Now();
  // Since the epoch.
  uint64_t Nanoseconds(Time time) const;

 private:
  int64_t offset_ = 0;
};

// What the spans of a request in one process go on from.
struct TraceLink {
  TraceContext context;
  WallAnchor anchor = {};
};

using AttributeValue = std::variant<std::string, int64_t, double, bool, std::vector<std::string>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

enum class SpanKind { kInternal = 1, kServer = 2 };  // OTLP's numbers

struct SpanEvent {
  Time time;
  std::string name;
  Attributes attributes = {};
};

struct Span {
  // Its trace, its parent (all zeros: none) and its state.
  TraceContext parent;
  bool remote_parent = false;  // of another process
  SpanId id{};
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  WallAnchor anchor;
  Time start;
  Time end;
  Attributes attributes = {};
  std::vector<SpanEvent> events = {};
  Status status;  // an error: the span's too
};

}  // namespace outrider
