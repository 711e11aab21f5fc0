#include "common/metrics/exporter.h"

#include <prometheus/exposer.h>
#include <prometheus/registry.h>

#include <exception>
#include <utility>
#include <vector>

#include "common/metrics/alias_view.h"

namespace outrider {

Result<std::unique_ptr<MetricsExporter>> MetricsExporter::Start(const std::string& address,
                                                                MetricsRegistry& registry,
                                                                MetricAliases aliases) {
  constexpr size_t kThreads = 1;  // one scraper, every few seconds
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address, kThreads);
    const std::vector<int> ports = exposer->GetListeningPorts();
    if (!ports.empty()) {
      exposer->RegisterCollectable(registry.registry_);
      auto view = MakeAliasView(registry.registry_, std::move(aliases));
      exposer->RegisterCollectable(view);
      return std::unique_ptr<MetricsExporter>(
          new MetricsExporter(std::move(view), std::move(exposer), ports.front()));
    }
  } catch (const std::exception&) {  // its text names neither the address nor the reason
  }
  return Unavailable("cannot serve metrics on " + address +
                     ": the address is malformed or taken; choose another one");
}

MetricsExporter::MetricsExporter(std::shared_ptr<prometheus::Collectable> aliases,
                                 std::unique_ptr<prometheus::Exposer> exposer, int port)
    : aliases_(std::move(aliases)), exposer_(std::move(exposer)), port_(port) {}
MetricsExporter::~MetricsExporter() = default;

}  // namespace outrider
