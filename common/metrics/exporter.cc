#include "common/metrics/exporter.h"

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>
#include <vector>

namespace outrider {

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const std::string& address,
                                                                MetricsRegistry& registry) {
  constexpr size_t kThreads = 1;  // one scraper, every few seconds
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, kThreads);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (!ports.empty()) {
      exposer->RegisterCollectable(registry.registry_);
      return std::unique_ptr<MetricsExporter>(
          new MetricsExporter(std::move(exposer), ports.front()));
    }
  } catch (const std::exception&) {  // its text names neither the address nor the reason
  }
  return Unavailable("cannot serve metrics on " + address +
                     ": the address is malformed or taken; choose another one");
}

MetricsExporter::MetricsExporter(std::unique_ptr<prometheus::Exposer> exposer, int port)
    : exposer_(std::move(exposer)), port_(port) {}
MetricsExporter::~MetricsExporter() = default;

}  // namespace outrider
