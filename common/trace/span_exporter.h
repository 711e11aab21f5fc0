// Takes ended spans and passes them on from a thread of its own: nobody who records spans waits for
// a disk or a network. What does not fit its queue, or cannot be passed on, is lost and counted.
//
// Owner: a Tracer. Thread: any; only Close and the destructor block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "common/trace/span.h"

namespace outrider {

// The spans of one call of Tracer::Record, which exporters share.
using SpanBatch = std::shared_ptr<const std::vector<Span>>;

// Told the outcome of spans, from any thread. May be null.
struct ExportCounts {
  std::function<void(size_t spans)> on_exported = nullptr;
  std::function<void(size_t spans)> on_dropped = nullptr;

  void AddExported(size_t spans) const {
    if (on_exported != nullptr && spans > 0) on_exported(spans);
  }
  void AddDropped(size_t spans) const {
    if (on_dropped != nullptr && spans > 0) on_dropped(spans);
  }
};

class SpanExporter {
 public:
  virtual ~SpanExporter() = default;

  virtual void Record(SpanBatch spans) = 0;
  // Begins to end: spans that are recorded later are dropped. Does not block.
  virtual void BeginClose() = 0;
  // Passes on what was recorded, as far as the exporter waits for that, and ends the thread.
  virtual void Close() = 0;
};

}  // namespace outrider
