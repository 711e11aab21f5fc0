#include "common/metrics/readiness.h"

#include <utility>

namespace outrider {

Readiness::Readiness(MetricsExporter* exporter, std::string why_not)
    : ready_(std::make_shared<std::atomic<bool>>(false)) {
  if (exporter == nullptr) return;
  exporter->AddPage("/ready", [ready = ready_, why_not = std::move(why_not)] {
    return MetricsPage{.status = *ready ? 200 : 503,
                       .content_type = "text/plain",
                       .body = (*ready ? "ready" : why_not) + "\n"};
  });
}

}  // namespace outrider
