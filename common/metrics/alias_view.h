// A registry's metrics once more under other names, for tools that know those: read from the same
// counters at every scrape. Nothing is counted twice.
#pragma once

#include <memory>

#include "common/metrics/registry.h"

namespace prometheus {
class Collectable;
}

namespace outrider {

// A name that is not in `registry` gives nothing. Thread: any.
std::shared_ptr<prometheus::Collectable> MakeAliasView(
    std::shared_ptr<const prometheus::Collectable> registry, MetricAliases aliases);

}  // namespace outrider
