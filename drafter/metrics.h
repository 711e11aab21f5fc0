// A drafter's metrics; docs/metrics.md lists every one.
//
// Owner: main; outlives the loop and the link. Thread: any.
#pragma once

#include <map>

#include "common/metrics/registry.h"
#include "common/metrics/trace_counters.h"
#include "drafter/subset/verifier_subset.h"

namespace outrider {

struct DrafterMetrics {
 private:
  MetricsRegistry& registry_;  // first, as it makes the others

 public:
  explicit DrafterMetrics(MetricsRegistry& registry);

  Counter draft_tokens_total =
      registry_.MakeCounter("outrider_drafter_draft_tokens_total",
                            "Draft tokens made; tokens that sequences share count once");
  Counter not_finite_rows_total = registry_.MakeCounter(
      "outrider_drafter_not_finite_rows_total",
      "Logits rows that were NaN or infinite, from which nothing was drafted");
  Counter drafts_sent_total = registry_.MakeCounter(
      "outrider_drafter_drafts_sent_total", "Complete drafts sent, one per session and round");
  Histogram draft_depth = registry_.MakeHistogram(
      "outrider_drafter_draft_depth",
      "Length of a draft's longest path, ended by its stop rule or the plan",
      {1, 2, 3, 4, 6, 8, 12, 16, 32});
  // The rate of its sum is the mean number of plans at hand.
  Histogram draft_seconds = registry_.MakeHistogram("outrider_drafter_draft_seconds",
                                                    "Time from a plan's arrival to its whole draft",
                                                    StepSecondsBuckets());
  Counter ahead_tokens_total =
      registry_.MakeCounter("outrider_drafter_ahead_tokens_total",
                            "Of the draft tokens made, those of lookahead drafting");
  Counter ahead_verdicts_total = registry_.MakeCounter(
      "outrider_drafter_ahead_verdicts_total", "Verdicts that arrived after lookahead drafting");
  Counter ahead_hits_total = registry_.MakeCounter(
      "outrider_drafter_ahead_hits_total", "Of these, verdicts whose draft was already there");
  Counter prefix_cache_queries_total =
      registry_.MakeCounter("outrider_drafter_prefix_cache_queries_total",
                            "Tokens of opened sessions, looked up in the prefix cache");
  Counter prefix_cache_hits_total =
      registry_.MakeCounter("outrider_drafter_prefix_cache_hits_total",
                            "Of these, tokens found there, which were not read again");
  Gauge head_bias =
      registry_.MakeGauge("outrider_drafter_head_bias",
                          "Correction of the acceptance head's logits, learned from verdicts");
  Gauge head_threshold = registry_.MakeGauge(
      "outrider_drafter_head_threshold",
      "Rejection probability at which the acceptance head stops a path, if the plan names none");
  Histogram forward_seconds =
      registry_.MakeHistogram("outrider_drafter_forward_seconds",
                              "One forward pass of the draft model", StepSecondsBuckets());
  Histogram batch_rows = registry_.MakeHistogram(
      "outrider_drafter_batch_rows", "Token rows of one forward pass", RowCountBuckets());
  Counter device_graph_launches_total = registry_.MakeCounter(
      "outrider_drafter_device_graph_launches_total",
      "Forward passes, and depths after a draft's first, that the device ran as one graph");
  Counter device_graph_captures_total = registry_.MakeCounter(
      "outrider_drafter_device_graph_captures_total", "Graphs captured for that");
  Counter device_rows_total =
      registry_.MakeCounter("outrider_drafter_device_rows_total",
                            "Logits rows sampled on the GPU without copying them to the host");
  Counter device_to_host_bytes_total = registry_.MakeCounter(
      "outrider_drafter_device_to_host_bytes_total",
      "Bytes copied from the GPU: the most likely entries of rows, hidden states");
  Gauge sessions = registry_.MakeGauge("outrider_drafter_sessions", "Sessions mirrored");
  Counter reconnects_total = registry_.MakeCounter("outrider_drafter_reconnects_total",
                                                   "Attachments that ended and were dialled again");
  Gauge attached = registry_.MakeGauge("outrider_drafter_attached",
                                       "Verifiers that this drafter is attached to");
  Gauge verifiers = registry_.MakeGauge("outrider_drafter_verifiers",
                                        "Verifiers that --verifier names at present");
  Gauge subset_streams = registry_.MakeGauge(
      "outrider_drafter_subset_streams", "Streams of the subset of --subset, attached or dialled");
  Gauge draining_streams = registry_.MakeGauge(
      "outrider_drafter_draining_streams",
      "Streams beside the subset that were left and close after their last session");
  Gauge other_zone_streams =
      registry_.MakeGauge("outrider_drafter_other_zone_streams",
                          "Attached streams of the subset to verifiers of another --zone");
  std::map<SubsetReason, Counter> streams_left = StreamsLeft();
  Counter lookups_failed_total = registry_.MakeCounter(
      "outrider_drafter_lookups_failed_total", "Failed lookups of a name or file of --verifier");
  TraceCounters trace_spans = {
      .written = registry_.MakeCounter("outrider_drafter_trace_spans_total",
                                       "Spans written to --trace-file"),
      .dropped = registry_.MakeCounter("outrider_drafter_trace_spans_dropped_total",
                                       "Spans lost because the disk was too slow, full or gone"),
      .sent = registry_.MakeCounter("outrider_drafter_trace_spans_sent_total",
                                    "Spans that the collector of --trace-endpoint accepted"),
      .not_sent = registry_.MakeCounter(
          "outrider_drafter_trace_spans_not_sent_total",
          "Spans lost because that collector rejected them, was too slow or gone")};

 private:
  std::map<SubsetReason, Counter> StreamsLeft();
};

}  // namespace outrider
