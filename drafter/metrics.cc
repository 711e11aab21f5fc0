#include "drafter/metrics.h"

namespace outrider {

DrafterMetrics::DrafterMetrics(MetricsRegistry& registry, const std::string& model_name)
    : draft_tokens_total(registry.MakeCounter(
          "outrider_drafter_draft_tokens_total",
          "Draft tokens made; what two sequences share counts once", {{"model_name", model_name}})),
      not_finite_rows_total(registry.MakeCounter(
          "outrider_drafter_not_finite_rows_total",
          "Rows of logits from which nothing was drafted, being NaN or infinite",
          {{"model_name", model_name}})),
      drafts_sent_total(registry.MakeCounter("outrider_drafter_drafts_sent_total",
                                             "Drafts sent whole, one a session and round",
                                             {{"model_name", model_name}})),
      draft_depth(registry.MakeHistogram(
          "outrider_drafter_draft_depth",
          "Tokens of a draft's longest path: where its stop rule, an end of sequence or the plan "
          "ended it",
          {1, 2, 3, 4, 6, 8, 12, 16, 32}, {{"model_name", model_name}})),
      draft_seconds(registry.MakeHistogram("outrider_drafter_draft_seconds",
                                           "From a plan's arrival to its whole draft",
                                           StepSecondsBuckets(), {{"model_name", model_name}})),
      ahead_tokens_total(registry.MakeCounter(
          "outrider_drafter_ahead_tokens_total",
          "Of the draft tokens made, those made ahead of a verdict", {{"model_name", model_name}})),
      ahead_verdicts_total(registry.MakeCounter("outrider_drafter_ahead_verdicts_total",
                                                "Verdicts that were worked ahead of",
                                                {{"model_name", model_name}})),
      ahead_hits_total(registry.MakeCounter(
          "outrider_drafter_ahead_hits_total",
          "Of these, those that were answered with what was there", {{"model_name", model_name}})),
      prefix_cache_queries_total(
          registry.MakeCounter("outrider_drafter_prefix_cache_queries_total",
                               "Tokens of opened sessions, looked up in the prefix cache",
                               {{"model_name", model_name}})),
      prefix_cache_hits_total(
          registry.MakeCounter("outrider_drafter_prefix_cache_hits_total",
                               "Of these, tokens whose KV was there: they were not read again",
                               {{"model_name", model_name}})),
      head_bias(registry.MakeGauge("outrider_drafter_head_bias",
                                   "Added to the acceptance head's logits, from what verdicts told",
                                   {{"model_name", model_name}})),
      head_threshold(registry.MakeGauge(
          "outrider_drafter_head_threshold",
          "Chance of a rejection above which the acceptance head stops a path, where the plan "
          "names none",
          {{"model_name", model_name}})),
      forward_seconds(registry.MakeHistogram("outrider_drafter_forward_seconds",
                                             "One forward pass of the draft model",
                                             StepSecondsBuckets(), {{"model_name", model_name}})),
      batch_rows(registry.MakeHistogram("outrider_drafter_batch_rows",
                                        "Token rows of one forward pass", RowCountBuckets(),
                                        {{"model_name", model_name}})),
      device_graph_launches_total(registry.MakeCounter(
          "outrider_drafter_device_graph_launches_total",
          "Forward passes, and depths behind a draft's first, that the device ran as one graph",
          {{"model_name", model_name}})),
      device_graph_captures_total(
          registry.MakeCounter("outrider_drafter_device_graph_captures_total",
                               "Graphs that were made for that", {{"model_name", model_name}})),
      device_rows_total(registry.MakeCounter(
          "outrider_drafter_device_rows_total",
          "Rows of logits that were drawn from on the GPU, none of which came to the host",
          {{"model_name", model_name}})),
      device_to_host_bytes_total(registry.MakeCounter(
          "outrider_drafter_device_to_host_bytes_total",
          "Bytes that came from the GPU: the likeliest entries of rows, hidden states",
          {{"model_name", model_name}})),
      sessions(registry.MakeGauge("outrider_drafter_sessions", "Sessions mirrored",
                                  {{"model_name", model_name}})),
      reconnects_total(registry.MakeCounter("outrider_drafter_reconnects_total",
                                            "Attachments that ended and were dialled again",
                                            {{"model_name", model_name}})),
      attached(registry.MakeGauge("outrider_drafter_attached",
                                  "Verifiers that this drafter is attached to",
                                  {{"model_name", model_name}})),
      verifiers(registry.MakeGauge("outrider_drafter_verifiers",
                                   "Verifiers that --verifier stands for now",
                                   {{"model_name", model_name}})),
      lookups_failed_total(
          registry.MakeCounter("outrider_drafter_lookups_failed_total",
                               "Looks at a name or file of --verifier that found nothing to go by",
                               {{"model_name", model_name}})),
      trace_spans_total(registry.MakeCounter("outrider_drafter_trace_spans_total",
                                             "Spans written to --trace-file",
                                             {{"model_name", model_name}})),
      trace_spans_dropped_total(
          registry.MakeCounter("outrider_drafter_trace_spans_dropped_total",
                               "Spans lost: the disk was slower than they came, full or gone",
                               {{"model_name", model_name}})) {}

}  // namespace outrider
