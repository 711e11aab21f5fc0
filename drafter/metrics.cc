#include "drafter/metrics.h"

namespace outrider {
namespace {

std::map<SubsetReason, Counter> MakeStreamsLeft(MetricsRegistry& registry) {
  std::map<SubsetReason, Counter> counters;
  for (const SubsetReason reason : kLeaveReasons) {
    counters.emplace(reason, registry.MakeCounter(
                                 "outrider_drafter_streams_left_total",
                                 "Verifiers that this drafter has left for another one, by reason",
                                 {{"reason", ToString(reason)}}));
  }
  return counters;
}

}  // namespace

DrafterMetrics::DrafterMetrics(MetricsRegistry& registry)
    : draft_tokens_total(
          registry.MakeCounter("outrider_drafter_draft_tokens_total",
                               "Draft tokens made; tokens that sequences share count once")),
      not_finite_rows_total(registry.MakeCounter(
          "outrider_drafter_not_finite_rows_total",
          "Logits rows that were NaN or infinite, from which nothing was drafted")),
      drafts_sent_total(registry.MakeCounter("outrider_drafter_drafts_sent_total",
                                             "Complete drafts sent, one per session and round")),
      draft_depth(registry.MakeHistogram("outrider_drafter_draft_depth",
                                         "Length of a draft's longest path, ended by its stop "
                                         "rule or the plan",
                                         {1, 2, 3, 4, 6, 8, 12, 16, 32})),
      draft_seconds(registry.MakeHistogram("outrider_drafter_draft_seconds",
                                           "Time from a plan's arrival to its whole draft",
                                           StepSecondsBuckets())),
      ahead_tokens_total(
          registry.MakeCounter("outrider_drafter_ahead_tokens_total",
                               "Of the draft tokens made, those of lookahead drafting")),
      ahead_verdicts_total(registry.MakeCounter("outrider_drafter_ahead_verdicts_total",
                                                "Verdicts that arrived after lookahead drafting")),
      ahead_hits_total(registry.MakeCounter("outrider_drafter_ahead_hits_total",
                                            "Of these, verdicts whose draft was already there")),
      prefix_cache_queries_total(
          registry.MakeCounter("outrider_drafter_prefix_cache_queries_total",
                               "Tokens of opened sessions, looked up in the prefix cache")),
      prefix_cache_hits_total(
          registry.MakeCounter("outrider_drafter_prefix_cache_hits_total",
                               "Of these, tokens found there, which were not read again")),
      head_bias(
          registry.MakeGauge("outrider_drafter_head_bias",
                             "Correction of the acceptance head's logits, learned from verdicts")),
      head_threshold(registry.MakeGauge("outrider_drafter_head_threshold",
                                        "Rejection probability at which the acceptance head stops "
                                        "a path, if the plan names none")),
      forward_seconds(registry.MakeHistogram("outrider_drafter_forward_seconds",
                                             "One forward pass of the draft model",
                                             StepSecondsBuckets())),
      batch_rows(registry.MakeHistogram("outrider_drafter_batch_rows",
                                        "Token rows of one forward pass", RowCountBuckets())),
      device_graph_launches_total(registry.MakeCounter(
          "outrider_drafter_device_graph_launches_total",
          "Forward passes, and depths after a draft's first, that the device ran as one graph")),
      device_graph_captures_total(registry.MakeCounter(
          "outrider_drafter_device_graph_captures_total", "Graphs captured for that")),
      device_rows_total(
          registry.MakeCounter("outrider_drafter_device_rows_total",
                               "Logits rows sampled on the GPU without copying them to the host")),
      device_to_host_bytes_total(registry.MakeCounter(
          "outrider_drafter_device_to_host_bytes_total",
          "Bytes copied from the GPU: the most likely entries of rows, hidden states")),
      sessions(registry.MakeGauge("outrider_drafter_sessions", "Sessions mirrored")),
      reconnects_total(registry.MakeCounter("outrider_drafter_reconnects_total",
                                            "Attachments that ended and were dialled again")),
      attached(registry.MakeGauge("outrider_drafter_attached",
                                  "Verifiers that this drafter is attached to")),
      verifiers(registry.MakeGauge("outrider_drafter_verifiers",
                                   "Verifiers that --verifier names at present")),
      subset_streams(registry.MakeGauge("outrider_drafter_subset_streams",
                                        "Streams of the subset of --subset, attached or dialled")),
      draining_streams(registry.MakeGauge(
          "outrider_drafter_draining_streams",
          "Streams beside the subset that were left and close after their last session")),
      other_zone_streams(
          registry.MakeGauge("outrider_drafter_other_zone_streams",
                             "Attached streams of the subset to verifiers of another --zone")),
      streams_left(MakeStreamsLeft(registry)),
      lookups_failed_total(registry.MakeCounter("outrider_drafter_lookups_failed_total",
                                                "Failed lookups of a name or file of --verifier")),
      trace_spans{
          .written = registry.MakeCounter("outrider_drafter_trace_spans_total",
                                          "Spans written to --trace-file"),
          .dropped = registry.MakeCounter("outrider_drafter_trace_spans_dropped_total",
                                          "Spans lost because the disk was too slow, full or gone"),
          .sent = registry.MakeCounter("outrider_drafter_trace_spans_sent_total",
                                       "Spans that the collector of --trace-endpoint accepted"),
          .not_sent = registry.MakeCounter(
              "outrider_drafter_trace_spans_not_sent_total",
              "Spans lost because that collector rejected them, was too slow or gone")} {}

}  // namespace outrider
