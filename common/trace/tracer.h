// Records the spans of a process by its exporters: to a file, to a collector, or both. Each has a
// thread and a queue of its own, so a slow disk or a collector that does not answer costs spans,
// which are counted, and no request waits.
//
// Owner: main; outlives the code that records. nullptr if tracing is off.
// Thread: any; only Close and the destructor block.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/trace/span.h"
#include "common/trace/span_exporter.h"

namespace outrider {

// service.name, service.version, service.instance.id and process.pid.
Attributes ResourceOf(const std::string& service, const std::string& instance);

class Tracer {
 public:
  // `sample_ratio`: of requests without a trace of their own.
  Tracer(double sample_ratio, std::vector<std::unique_ptr<SpanExporter>> exporters)
      : sample_ratio_(sample_ratio), exporters_(std::move(exporters)) {}
  ~Tracer();

  // Whether a new trace is recorded.
  bool Sample() const;
  // Records spans that have ended. Where there is no room, they are dropped.
  void Record(std::vector<Span> spans);
  // Passes on what was recorded, as far as the exporters wait for that; later spans are dropped.
  void Close();

 private:
  const double sample_ratio_;
  const std::vector<std::unique_ptr<SpanExporter>> exporters_;
};

}  // namespace outrider
