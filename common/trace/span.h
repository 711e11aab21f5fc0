// One span of a trace, in terms of OpenTelemetry's data model.
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

// The offset of the process's monotonic clock from wall time. Taken once for all spans of a request
// in one process, so that a step of the wall clock does not separate spans from their parents.
class WallAnchor {
 public:
  static WallAnchor Now();
  // Since the epoch.
  uint64_t Nanoseconds(Time time) const;

 private:
  int64_t offset_ = 0;
};

// The link from which the spans of a request in one process continue.
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
  bool remote_parent = false;  // belongs to another process
  SpanId id{};
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  WallAnchor anchor;
  Time start;
  Time end;
  Attributes attributes = {};
  std::vector<SpanEvent> events = {};
  Status status;  // an error becomes the span's
};

}  // namespace outrider
