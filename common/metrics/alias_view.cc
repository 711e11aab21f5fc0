#include "common/metrics/alias_view.h"

#include <prometheus/metric_family.h>

#include <utility>

namespace outrider {

AliasView::AliasView(std::shared_ptr<const prometheus::Collectable> registry, MetricAliases aliases)
    : registry_(std::move(registry)), aliases_(std::move(aliases)) {}

std::vector<prometheus::MetricFamily> AliasView::Collect() const {
  std::vector<prometheus::MetricFamily> out;
  if (aliases_.names.empty()) return out;
  for (const prometheus::MetricFamily& family : registry_->Collect()) {
    const auto [begin, end] = aliases_.names.equal_range(family.name);
    for (auto it = begin; it != end; ++it) {
      prometheus::MetricFamily& alias = out.emplace_back(family);
      alias.name = it->second;
      for (prometheus::ClientMetric& metric : alias.metric) {
        for (const auto& [name, value] : aliases_.labels) metric.label.push_back({name, value});
      }
    }
  }
  return out;
}

}  // namespace outrider
