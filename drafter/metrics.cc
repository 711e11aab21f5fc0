#include "drafter/metrics.h"

namespace outrider {

DrafterMetrics::DrafterMetrics(MetricsRegistry& registry) : registry_(registry) {}

std::map<SubsetReason, Counter> DrafterMetrics::StreamsLeft() {
  std::map<SubsetReason, Counter> counters;
  for (const SubsetReason reason : kLeaveReasons) {
    counters.emplace(reason, registry_.MakeCounter(
                                 "outrider_drafter_streams_left_total",
                                 "Verifiers that this drafter has left for another one, by reason",
                                 {{"reason", ToString(reason)}}));
  }
  return counters;
}

}  // namespace outrider
