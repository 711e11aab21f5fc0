#include "common/service/open_tracer.h"

#include <utility>
#include <vector>

#include "common/service/host_and_pid.h"
#include "common/trace/file_exporter.h"
#include "common/trace_http/http_exporter.h"

namespace outrider {
namespace {

ExportCounts CountsOf(Counter exported, Counter dropped) {
  const auto add = [](Counter counter) {
    return [counter](size_t spans) mutable { counter.Increment(static_cast<double>(spans)); };
  };
  return {.on_exported = add(exported), .on_dropped = add(dropped)};
}

}  // namespace

Result<std::unique_ptr<Tracer>> OpenTracer(const ServiceOptions& options,
                                           const std::string& service, const std::string& instance,
                                           double sample_ratio, const TraceCounters& counters) {
  const Attributes resource = ResourceOf(service, instance.empty() ? HostAndPid() : instance);
  std::vector<std::unique_ptr<SpanExporter>> exporters;
  if (!options.trace_file.empty()) {
    auto file = FileExporter::Open({.path = options.trace_file,
                                    .max_bytes = static_cast<uint64_t>(options.trace_max_mb) << 20,
                                    .resource = resource,
                                    .counts = CountsOf(counters.written, counters.dropped)});
    if (!file.ok()) return file.status().Annotate("--trace-file");
    exporters.push_back(std::move(file).value());
  }
  if (!options.trace_endpoint.empty()) {
    auto endpoint = HttpExporter::Open({.endpoint = options.trace_endpoint,
                                        .resource = resource,
                                        .counts = CountsOf(counters.sent, counters.not_sent)});
    if (!endpoint.ok()) return endpoint.status().Annotate("--trace-endpoint");
    exporters.push_back(std::move(endpoint).value());
  }
  if (exporters.empty()) return std::unique_ptr<Tracer>();
  return std::make_unique<Tracer>(sample_ratio, std::move(exporters));
}

}  // namespace outrider
