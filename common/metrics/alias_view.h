// A registry's metrics once more under other names, for tools that know those: read from the same
// counters at every scrape. Nothing is counted twice.
//
// Thread: any.
#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <vector>

#include "common/metrics/registry.h"

namespace outrider {

class AliasView final : public prometheus::Collectable {
 public:
  // A name that is not in `registry` gives nothing.
  AliasView(std::shared_ptr<const prometheus::Collectable> registry, MetricAliases aliases);

  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  const std::shared_ptr<const prometheus::Collectable> registry_;
  const MetricAliases aliases_;
};

}  // namespace outrider
