// Exposes a registry's metrics under other names as well, for tools that know those. Reads the same
// counters at every scrape; nothing is counted twice.
#pragma once

#include <memory>

#include "common/metrics/registry.h"

namespace prometheus {
class Collectable;
}

namespace outrider {

// Names that are not in `registry` are skipped. Thread: any.
std::shared_ptr<prometheus::Collectable> MakeAliasView(
    std::shared_ptr<const prometheus::Collectable> registry, MetricAliases aliases);

}  // namespace outrider
