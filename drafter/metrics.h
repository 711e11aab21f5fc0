// A drafter's metrics; docs/metrics.md lists every one.
//
// Owner: main; outlives the loop and the link. Thread: any.
#pragma once

#include <map>
#include <string>

#include "common/metrics/registry.h"
#include "common/metrics/trace_counters.h"
#include "drafter/subset/verifier_subset.h"

namespace outrider {

struct DrafterMetrics {
  explicit DrafterMetrics(MetricsRegistry& registry);

  Counter draft_tokens_total;
  Counter not_finite_rows_total;  // logits rows that are not finite; nothing is drafted from them
  Counter drafts_sent_total;
  Histogram draft_depth;
  // from a plan's arrival to its draft; the rate of its sum is the mean number of plans at hand
  Histogram draft_seconds;
  Counter ahead_tokens_total;
  Counter ahead_verdicts_total;
  Counter ahead_hits_total;
  Counter prefix_cache_queries_total;
  Counter prefix_cache_hits_total;
  Gauge head_bias;
  Gauge head_threshold;
  Histogram forward_seconds;
  Histogram batch_rows;                 // token rows of one forward pass
  Counter device_graph_launches_total;  // forward passes that the device ran as one graph
  Counter device_graph_captures_total;  // graphs captured for that
  Counter device_rows_total;
  Counter device_to_host_bytes_total;
  Gauge sessions;
  Counter reconnects_total;
  Gauge attached;   // verifiers that this drafter is attached to
  Gauge verifiers;  // that --verifier names
  Gauge subset_streams;
  Gauge draining_streams;
  Gauge other_zone_streams;
  std::map<SubsetReason, Counter> streams_left;
  Counter lookups_failed_total;
  TraceCounters trace_spans;
};

}  // namespace outrider
