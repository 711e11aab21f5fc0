#include "common/metrics/alias_view.h"

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>

#include <utility>
#include <vector>

namespace outrider {
namespace {

class AliasView final : public prometheus::Collectable {
 public:
  AliasView(std::shared_ptr<const prometheus::Collectable> registry, MetricAliases aliases)
      : registry_(std::move(registry)), aliases_(std::move(aliases)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
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

 private:
  const std::shared_ptr<const prometheus::Collectable> registry_;
  const MetricAliases aliases_;
};

}  // namespace

std::shared_ptr<prometheus::Collectable> MakeAliasView(
    std::shared_ptr<const prometheus::Collectable> registry, MetricAliases aliases) {
  return std::make_shared<AliasView>(std::move(registry), std::move(aliases));
}

}  // namespace outrider
