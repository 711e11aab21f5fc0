// Metrics whose values are read at each scrape: the registry's AddCounter and AddGauge.
//
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/metrics/registry.h"

namespace prometheus {
class Collectable;
}

namespace outrider {

class ReadMetrics {
 public:
  struct Metric {
    std::string name;
    std::string help;
    MetricLabels labels;
    bool counter = false;  // else a gauge
    MetricsRegistry::ReadFn read;
  };

  void Add(Metric metric) OUTRIDER_EXCLUDES(mu_);
  // In the order of Add.
  std::vector<Metric> All() const OUTRIDER_EXCLUDES(mu_);

 private:
  mutable Mutex mu_;
  std::vector<Metric> metrics_ OUTRIDER_GUARDED_BY(mu_);
};

// For scrapes.
std::shared_ptr<prometheus::Collectable> MakeReadView(std::shared_ptr<const ReadMetrics> metrics);

}  // namespace outrider
