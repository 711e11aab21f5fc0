// Answers Prometheus's scrapes: plain HTTP, GET /metrics.
//
// Thread: has its own; start and destroy it from one thread.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/metrics/registry.h"

namespace prometheus {
class Collectable;
class Exposer;
}  // namespace prometheus

namespace outrider {

class MetricsExporter {
 public:
  // `address`: "host:port"; port 0 takes a free one. kUnavailable when it cannot be taken. The
  // registry may be filled before and after. Metrics that have `aliases` are shown by those too.
  static Result<std::unique_ptr<MetricsExporter>> Start(const std::string& address,
                                                        MetricsRegistry& registry,
                                                        MetricAliases aliases = {});
  ~MetricsExporter();

  int port() const { return port_; }

 private:
  MetricsExporter(std::shared_ptr<prometheus::Collectable> aliases,
                  std::unique_ptr<prometheus::Exposer> exposer, int port);

  const std::shared_ptr<prometheus::Collectable> aliases_;  // the exposer itself keeps none alive
  const std::unique_ptr<prometheus::Exposer> exposer_;
  const int port_;
};

}  // namespace outrider
