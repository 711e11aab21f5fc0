#include "verifier/engine/metrics.h"

#include <algorithm>

namespace outrider {
namespace {

// The longest draft that the protocol plans for; more positions would only add series.
constexpr int kPositions = 16;

constexpr char kRequestsRefused[] = "outrider_requests_refused_total";
constexpr char kRequestsRefusedHelp[] = "Requests refused before they waited";
constexpr char kDraftersLeft[] = "outrider_drafters_left_total";
constexpr char kDraftersLeftHelp[] = "Drafters whose stream ended";

}  // namespace

VerifierMetrics::VerifierMetrics(MetricsRegistry& registry,
                                 const std::vector<std::string>& arm_names)
    : time_to_first_token_seconds(registry.MakeHistogram(
          "outrider_time_to_first_token_seconds", "From a request's arrival to its first token",
          RequestSecondsBuckets())),
      inter_token_latency_seconds(registry.MakeHistogram(
          "outrider_inter_token_latency_seconds",
          "Time between two chunks, per token of the later one", StepSecondsBuckets())),
      e2e_request_latency_seconds(registry.MakeHistogram("outrider_e2e_request_latency_seconds",
                                                         "From a request's arrival to its end",
                                                         RequestSecondsBuckets())),
      request_queue_time_seconds(registry.MakeHistogram("outrider_request_queue_time_seconds",
                                                        "From a request's arrival to its admission",
                                                        RequestSecondsBuckets())),
      request_prefill_time_seconds(registry.MakeHistogram(
          "outrider_request_prefill_time_seconds", "From a request's admission to its first token",
          RequestSecondsBuckets())),
      request_decode_time_seconds(registry.MakeHistogram(
          "outrider_request_decode_time_seconds", "From a request's first token to its last one",
          RequestSecondsBuckets())),
      request_inference_time_seconds(
          registry.MakeHistogram("outrider_request_inference_time_seconds",
                                 "From a request's admission to its end", RequestSecondsBuckets())),
      request_time_per_output_token_seconds(
          registry.MakeHistogram("outrider_request_time_per_output_token_seconds",
                                 "A finished request's decode time over its tokens after the first",
                                 StepSecondsBuckets())),
      request_prompt_tokens(registry.MakeHistogram("outrider_request_prompt_tokens",
                                                   "Prompt tokens of a finished request",
                                                   TokenCountBuckets())),
      request_generation_tokens(registry.MakeHistogram("outrider_request_generation_tokens",
                                                       "Tokens produced by a finished request",
                                                       TokenCountBuckets())),
      request_params_max_tokens(registry.MakeHistogram(
          "outrider_request_params_max_tokens", "max_tokens of finished requests that set it",
          TokenCountBuckets())),
      num_requests_running(
          registry.MakeGauge("outrider_num_requests_running", "Admitted requests")),
      num_requests_waiting(
          registry.MakeGauge("outrider_num_requests_waiting", "Requests waiting for admission")),
      kv_cache_usage_perc(registry.MakeGauge("outrider_kv_cache_usage_perc",
                                             "Share of the KV pages in use, 1 is all")),
      kv_cache_requests_perc(registry.MakeGauge(
          "outrider_kv_cache_requests_perc",
          "Share of the KV pages that running requests hold; shared pages count for each")),
      kv_pages_used(registry.MakeGauge("outrider_kv_pages_used", "KV pages that somebody holds")),
      prefix_cache_pages(
          registry.MakeGauge("outrider_prefix_cache_pages",
                             "KV pages in the prefix cache, alone or together with requests")),
      num_preemptions_total(registry.MakeCounter(
          "outrider_num_preemptions_total",
          "Running requests that were preempted by an older one and computed again")),
      prefix_cache_queries_total(registry.MakeCounter("outrider_prefix_cache_queries_total",
                                                      "Tokens looked up in the prefix cache")),
      prefix_cache_hits_total(registry.MakeCounter("outrider_prefix_cache_hits_total",
                                                   "Tokens found in the prefix cache")),
      prompt_tokens_total(registry.MakeCounter("outrider_prompt_tokens_total",
                                               "Prompt tokens of admitted requests")),
      generation_tokens_total(
          registry.MakeCounter("outrider_generation_tokens_total", "Tokens produced")),
      request_success_stop(registry.MakeCounter(
          "outrider_request_success_total", "Finished requests", {{"finished_reason", "stop"}})),
      request_success_length(registry.MakeCounter(
          "outrider_request_success_total", "Finished requests", {{"finished_reason", "length"}})),
      request_success_abort(registry.MakeCounter(
          "outrider_request_success_total", "Finished requests", {{"finished_reason", "abort"}})),
      requests_refused_queue_full(
          registry.MakeCounter(kRequestsRefused, kRequestsRefusedHelp, {{"reason", "queue_full"}})),
      requests_refused_client_share(registry.MakeCounter(kRequestsRefused, kRequestsRefusedHelp,
                                                         {{"reason", "client_share"}})),
      requests_refused_draining(
          registry.MakeCounter(kRequestsRefused, kRequestsRefusedHelp, {{"reason", "draining"}})),
      requests_not_finite(registry.MakeCounter("outrider_requests_not_finite_total",
                                               "Requests ended by NaN or infinite logits")),
      requests_refused_tokenizer_queue(registry.MakeCounter(kRequestsRefused, kRequestsRefusedHelp,
                                                            {{"reason", "tokenizer_queue"}})),
      tokenizer_requests_waiting(
          registry.MakeGauge("outrider_tokenizer_requests_waiting",
                             "Requests waiting for their text to be tokenized")),
      tokenizer_seconds(registry.MakeHistogram("outrider_tokenizer_seconds",
                                               "Time a worker took to tokenize one request's text",
                                               StepSecondsBuckets())),
      spec_decode_num_drafts_total(
          registry.MakeCounter("outrider_spec_decode_num_drafts_total", "Rounds with a draft")),
      spec_decode_num_draft_tokens_total(registry.MakeCounter(
          "outrider_spec_decode_num_draft_tokens_total", "Draft tokens scored")),
      spec_decode_num_accepted_tokens_total(registry.MakeCounter(
          "outrider_spec_decode_num_accepted_tokens_total", "Draft tokens accepted")),
      spec_decode_request_acceptance_rate(
          registry.MakeHistogram("outrider_spec_decode_request_acceptance_rate",
                                 "Share of a finished request's draft tokens that were accepted",
                                 {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1})),
      spec_decode_multipath_drafts_total(registry.MakeCounter(
          "outrider_spec_decode_multipath_drafts_total", "Rounds with several sampled sequences")),
      spec_decode_kseq_acceptance_total(registry.MakeCounter(
          "outrider_spec_decode_kseq_acceptance_total",
          "Sum over those rounds of the probability that k-SEQ accepts the first token")),
      spec_decode_optimal_acceptance_total(registry.MakeCounter(
          "outrider_spec_decode_optimal_acceptance_total",
          "Sum over those rounds of the largest probability that any rule could reach")),
      draft_bytes_received_total(registry.MakeCounter("outrider_draft_bytes_received_total",
                                                      "Bytes of drafts received over the wire")),
      draft_bytes_sent_total(registry.MakeCounter(
          "outrider_draft_bytes_sent_total", "Bytes sent to drafters: texts, verdicts and plans")),
      draft_tokens_late_total(registry.MakeCounter(
          "outrider_draft_tokens_late_total",
          "Draft tokens that arrived after their round had gone on without them")),
      early_drafts_total(registry.MakeCounter(
          "outrider_early_drafts_total", "Drafts sent before the verdict on the previous round")),
      early_drafts_used_total(registry.MakeCounter(
          "outrider_early_drafts_used_total", "Of those, drafts that rounds used without waiting")),
      draft_round_trip_seconds(registry.MakeHistogram("outrider_draft_round_trip_seconds",
                                                      "From a plan's sending to its whole draft",
                                                      StepSecondsBuckets())),
      draft_drafting_seconds(registry.MakeHistogram(
          "outrider_draft_drafting_seconds",
          "The drafter's own part of that, as it reports; the rest is the network's",
          StepSecondsBuckets())),
      drafters_connected(registry.MakeGauge("outrider_drafters_connected", "Drafters attached")),
      drafters_silent(
          registry.MakeGauge("outrider_drafters_silent",
                             "Of these, drafters whose drafts are late and not waited for")),
      drafters_wanted(registry.MakeGauge("outrider_drafters_wanted",
                                         "Drafters that the verifier asks for, by its load")),
      drafters_helping(registry.MakeGauge(
          "outrider_drafters_helping",
          "Attached drafters that are neither suspended nor about to leave, as drafters are told")),
      drafters_translating(registry.MakeGauge("outrider_drafters_translating",
                                              "Attached drafters with another vocabulary")),
      drafter_shared_vocabulary_ratio(
          registry.MakeGauge("outrider_drafter_shared_vocabulary_ratio",
                             "Share of such a drafter's tokens that the target also has: the least "
                             "of all, 1 without such drafters")),
      drafters_refused_total(registry.MakeCounter("outrider_drafters_refused_total",
                                                  "Drafters refused at their hello")),
      drafters_left_closed(
          registry.MakeCounter(kDraftersLeft, kDraftersLeftHelp, {{"reason", "closed"}})),
      drafters_left_gone(
          registry.MakeCounter(kDraftersLeft, kDraftersLeftHelp, {{"reason", "gone"}})),
      drafters_left_protocol_error(
          registry.MakeCounter(kDraftersLeft, kDraftersLeftHelp, {{"reason", "protocol_error"}})),
      drafters_left_overload(
          registry.MakeCounter(kDraftersLeft, kDraftersLeftHelp, {{"reason", "overload"}})),
      drafters_left_displaced(
          registry.MakeCounter(kDraftersLeft, kDraftersLeftHelp, {{"reason", "displaced"}})),
      rounds_total(
          registry.MakeCounter("outrider_rounds_total", "Rounds decided, plain ones included")),
      plain_rounds_total(
          registry.MakeCounter("outrider_plain_rounds_total", "Rounds without a draft")),
      forced_tokens_total(registry.MakeCounter("outrider_forced_tokens_total",
                                               "Tokens that requests' grammars forced")),
      round_seconds_total(registry.MakeCounter(
          "outrider_round_seconds_total",
          "Time of rounds after a request's first, from verdict to verdict: forward passes, waits "
          "for drafts, prompts of others")),
      round_seconds_if_plain_total(registry.MakeCounter(
          "outrider_round_seconds_if_plain_total",
          "Time that plain decoding would have taken for the tokens of these rounds at the same "
          "load; rounds that no draft touches count what they took")),
      device_rounds_total(registry.MakeCounter(
          "outrider_device_rounds_total",
          "Rounds that the device decided without copying logits to the host")),
      device_to_host_bytes_total(registry.MakeCounter(
          "outrider_device_to_host_bytes_total", "Bytes copied from the device: logits, verdicts")),
      device_graph_launches_total(
          registry.MakeCounter("outrider_device_graph_launches_total",
                               "Forward passes that the device ran as one graph")),
      device_graph_captures_total(
          registry.MakeCounter("outrider_device_graph_captures_total", "Graphs captured for that")),
      sessions_moved_total(registry.MakeCounter(
          "outrider_sessions_moved_total", "Sessions moved from a late drafter to another one")),
      draft_timeouts_total(registry.MakeCounter(
          "outrider_draft_timeouts_total", "Rounds whose draft was incomplete at the deadline")),
      arm_switches_total(registry.MakeCounter("outrider_spec_decode_arm_switches_total",
                                              "Rounds with another arm than the previous round")),
      drafters_held_back(registry.MakeGauge(
          "outrider_drafters_held_back",
          "1 while no session asks a drafter, because the engine is faster without or compares")),
      drafters_measured_speedup(registry.MakeGauge(
          "outrider_drafters_measured_speedup",
          "Tokens in a time with drafters over those without, by comparison at the present load; "
          "0: not compared")),
      arm_regret_seconds(registry.MakeGauge(
          "outrider_spec_decode_arm_regret_seconds",
          "Time of all rounds minus the expected time of the best known arm for their tokens")),
      engine_step_seconds(registry.MakeHistogram(
          "outrider_engine_step_seconds",
          "One step of the engine: batch, forward pass, verification", StepSecondsBuckets())),
      batch_rows(registry.MakeHistogram("outrider_batch_rows", "Token rows of one forward pass",
                                        RowCountBuckets())),
      trace_spans{
          .written =
              registry.MakeCounter("outrider_trace_spans_total", "Spans written to --trace-file"),
          .dropped = registry.MakeCounter("outrider_trace_spans_dropped_total",
                                          "Spans lost because the disk was too slow, full or gone"),
          .sent = registry.MakeCounter("outrider_trace_spans_sent_total",
                                       "Spans that the collector of --trace-endpoint accepted"),
          .not_sent = registry.MakeCounter(
              "outrider_trace_spans_not_sent_total",
              "Spans lost because that collector rejected them, was too slow or gone")} {
  for (int position = 0; position < kPositions; ++position) {
    accepted_per_pos_.push_back(
        registry.MakeCounter("outrider_spec_decode_num_accepted_tokens_per_pos_total",
                             "Draft tokens accepted by position in the draft, from 0",
                             {{"position", std::to_string(position)}}));
  }
  for (const std::string& name : arm_names) {
    const MetricLabels labels = {{"arm", name}};
    arms.push_back(
        {.rounds = registry.MakeCounter("outrider_spec_decode_arm_rounds_total",
                                        "Rounds by chosen arm", labels),
         .tokens = registry.MakeCounter("outrider_spec_decode_arm_tokens_total",
                                        "Tokens of these rounds", labels),
         .seconds = registry.MakeCounter("outrider_spec_decode_arm_seconds_total",
                                         "Time of these rounds, from choice to verdict", labels),
         .expected_tokens_per_second = registry.MakeGauge(
             "outrider_spec_decode_arm_expected_tokens_per_second",
             "What the controller expected of the arm when it last chose it", labels)});
  }
}

void VerifierMetrics::CountAcceptedPositions(int accepted) {
  for (int position = 0; position < std::min(accepted, kPositions); ++position) {
    accepted_per_pos_[static_cast<size_t>(position)].Increment();
  }
}

void ExportConfig(MetricsRegistry& registry, const ServedModelConfig& config) {
  registry
      .MakeGauge("outrider_cache_config_info", "Size of the KV cache, in labels; always 1",
                 {{"block_size", std::to_string(config.page_tokens)},
                  {"num_gpu_blocks", std::to_string(config.pages)}})
      .Set(1);
  registry.MakeGauge("outrider_model_devices", "Devices among which the model is divided")
      .Set(config.devices);
}

}  // namespace outrider
