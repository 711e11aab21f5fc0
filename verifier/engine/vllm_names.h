// The verifier's metrics under the names that vLLM has for the same things (its
// docs/design/metrics.md), so that dashboards, autoscalers and benchmark tools made for vLLM read
// them as they are.
#pragma once

#include "common/metrics/registry.h"

namespace outrider {

// From our name to vLLM's; where it renamed a metric, the old name too.
MetricAliases VllmAliases();

}  // namespace outrider
