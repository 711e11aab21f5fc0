#include "common/metrics/read_metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

class ReadView final : public prometheus::Collectable {
 public:
  explicit ReadView(std::shared_ptr<const ReadMetrics> metrics) : metrics_(std::move(metrics)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> families;
    for (const ReadMetrics::Metric& metric : metrics_->All()) {
      prometheus::MetricFamily& family = families.emplace_back();
      family.name = metric.name;
      family.help = metric.help;
      family.type =
          metric.counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
      prometheus::ClientMetric& value = family.metric.emplace_back();
      for (const auto& [name, text] : metric.labels) value.label.push_back({name, text});
      (metric.counter ? value.counter.value : value.gauge.value) = metric.read();
    }
    return families;
  }

 private:
  const std::shared_ptr<const ReadMetrics> metrics_;
};

}  // namespace

void ReadMetrics::Add(Metric metric) {
  MutexLock lock(mu_);
  OUTRIDER_CHECK(std::none_of(metrics_.begin(), metrics_.end(),
                              [&](const Metric& other) { return other.name == metric.name; }));
  metrics_.push_back(std::move(metric));
}

std::vector<ReadMetrics::Metric> ReadMetrics::All() const {
  MutexLock lock(mu_);
  return metrics_;
}

std::shared_ptr<prometheus::Collectable> MakeReadView(std::shared_ptr<const ReadMetrics> metrics) {
  return std::make_shared<ReadView>(std::move(metrics));
}

}  // namespace outrider
