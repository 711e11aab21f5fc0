// The verifier's metrics under vLLM's names for them (its docs/design/metrics.md), so that
// dashboards, autoscalers and benchmark tools made for vLLM work unchanged.
#pragma once

#include "common/metrics/registry.h"

namespace outrider {

// From our name to vLLM's, and to its old name if vLLM renamed the metric.
MetricAliases VllmAliases();

}  // namespace outrider
