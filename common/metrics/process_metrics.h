// What every Prometheus client library says of its process (process_cpu_seconds_total and the like,
// from Linux's /proc/self), which build runs, and how many log lines were lost.
#pragma once

#include "common/metrics/registry.h"

namespace outrider {

// The values are read at each scrape. Call once for a registry.
void AddProcessMetrics(MetricsRegistry& registry);

}  // namespace outrider
