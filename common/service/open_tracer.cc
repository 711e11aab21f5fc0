#include "common/service/open_tracer.h"

#include <unistd.h>

#include <array>

namespace outrider {
namespace {

std::string HostAndPid() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return std::string(host.data()) + ":" + std::to_string(getpid());
}

}  // namespace

Result<std::unique_ptr<Tracer>> OpenTracer(const ServiceOptions& options,
                                           const std::string& service, const std::string& instance,
                                           double sample_ratio, Counter written, Counter dropped) {
  if (options.trace_file.empty()) return std::unique_ptr<Tracer>();
  const auto add = [](Counter counter) {
    return [counter](size_t spans) mutable { counter.Increment(static_cast<double>(spans)); };
  };
  Result<std::unique_ptr<Tracer>> tracer =
      Tracer::Open({.path = options.trace_file,
                    .max_bytes = static_cast<uint64_t>(options.trace_max_mb) << 20,
                    .sample_ratio = sample_ratio,
                    .service = service,
                    .instance = instance.empty() ? HostAndPid() : instance,
                    .on_written = add(written),
                    .on_dropped = add(dropped)});
  if (!tracer.ok()) return tracer.status().Annotate("--trace-file");
  return tracer;
}

}  // namespace outrider
