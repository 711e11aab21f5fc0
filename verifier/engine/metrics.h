// The verifier's metrics. Names and meaning follow vLLM's where those exist, under our own prefix;
// docs/metrics.md lists every one.
//
// Owner: main; outlives the engine. Thread: any.
#pragma once

#include <string>
#include <vector>

#include "common/metrics/registry.h"
#include "common/metrics/trace_counters.h"

namespace outrider {

struct VerifierMetrics {
 private:
  MetricsRegistry& registry_;  // first, as it makes the others

 public:
  // `arm_names`: the controller's arms; empty without one.
  explicit VerifierMetrics(MetricsRegistry& registry,
                           const std::vector<std::string>& arm_names = {});

  // Times of a request in seconds. Each is observed once, when it is known.
  Histogram time_to_first_token_seconds = registry_.MakeHistogram(
      "outrider_time_to_first_token_seconds", "From a request's arrival to its first token",
      RequestSecondsBuckets());
  Histogram inter_token_latency_seconds = registry_.MakeHistogram(
      "outrider_inter_token_latency_seconds", "Time between two chunks, per token of the later one",
      StepSecondsBuckets());
  Histogram e2e_request_latency_seconds =
      registry_.MakeHistogram("outrider_e2e_request_latency_seconds",
                              "From a request's arrival to its end", RequestSecondsBuckets());
  Histogram request_queue_time_seconds =
      registry_.MakeHistogram("outrider_request_queue_time_seconds",
                              "From a request's arrival to its admission", RequestSecondsBuckets());
  Histogram request_prefill_time_seconds = registry_.MakeHistogram(
      "outrider_request_prefill_time_seconds", "From a request's admission to its first token",
      RequestSecondsBuckets());
  Histogram request_decode_time_seconds = registry_.MakeHistogram(
      "outrider_request_decode_time_seconds", "From a request's first token to its last one",
      RequestSecondsBuckets());
  Histogram request_inference_time_seconds =
      registry_.MakeHistogram("outrider_request_inference_time_seconds",
                              "From a request's admission to its end", RequestSecondsBuckets());
  // Only of requests with more than one token.
  Histogram request_time_per_output_token_seconds = registry_.MakeHistogram(
      "outrider_request_time_per_output_token_seconds",
      "A finished request's decode time over its tokens after the first", StepSecondsBuckets());
  // In tokens, observed once per request.
  Histogram request_prompt_tokens = registry_.MakeHistogram(
      "outrider_request_prompt_tokens", "Prompt tokens of a finished request", TokenCountBuckets());
  Histogram request_generation_tokens =
      registry_.MakeHistogram("outrider_request_generation_tokens",
                              "Tokens produced by a finished request", TokenCountBuckets());
  Histogram request_params_max_tokens =
      registry_.MakeHistogram("outrider_request_params_max_tokens",
                              "max_tokens of finished requests that set it", TokenCountBuckets());

  Gauge num_requests_running =
      registry_.MakeGauge("outrider_num_requests_running", "Admitted requests");
  Gauge num_requests_waiting =
      registry_.MakeGauge("outrider_num_requests_waiting", "Requests waiting for admission");
  // Pages that only the prefix cache holds count.
  Gauge kv_cache_usage_perc =
      registry_.MakeGauge("outrider_kv_cache_usage_perc", "Share of the KV pages in use, 1 is all");
  // vLLM's usage.
  Gauge kv_cache_requests_perc = registry_.MakeGauge(
      "outrider_kv_cache_requests_perc",
      "Share of the KV pages that running requests hold; shared pages count for each");
  Gauge kv_pages_used =
      registry_.MakeGauge("outrider_kv_pages_used", "KV pages that somebody holds");
  Gauge prefix_cache_pages =
      registry_.MakeGauge("outrider_prefix_cache_pages",
                          "KV pages in the prefix cache, alone or together with requests");

  Counter num_preemptions_total = registry_.MakeCounter(
      "outrider_num_preemptions_total",
      "Running requests that were preempted by an older one and computed again");
  Counter prefix_cache_queries_total = registry_.MakeCounter(
      "outrider_prefix_cache_queries_total", "Tokens looked up in the prefix cache");
  Counter prefix_cache_hits_total =
      registry_.MakeCounter("outrider_prefix_cache_hits_total", "Tokens found in the prefix cache");

  Counter prompt_tokens_total =
      registry_.MakeCounter("outrider_prompt_tokens_total", "Prompt tokens of admitted requests");
  Counter generation_tokens_total =
      registry_.MakeCounter("outrider_generation_tokens_total", "Tokens produced");
  Counter request_success_stop = Finished("stop");
  Counter request_success_length = Finished("length");
  Counter request_success_abort = Finished("abort");  // the client cancelled or went away
  Counter requests_refused_queue_full = Refused("queue_full");
  Counter requests_refused_client_share = Refused("client_share");  // of the queue
  Counter requests_refused_draining = Refused("draining");
  Counter requests_not_finite = registry_.MakeCounter("outrider_requests_not_finite_total",
                                                      "Requests ended by NaN or infinite logits");
  // Before the text was tokenized.
  Counter requests_refused_tokenizer_queue = Refused("tokenizer_queue");

  Gauge tokenizer_requests_waiting = registry_.MakeGauge(
      "outrider_tokenizer_requests_waiting", "Requests waiting for their text to be tokenized");
  Histogram tokenizer_seconds = registry_.MakeHistogram(
      "outrider_tokenizer_seconds", "Time a worker took to tokenize one request's text",
      StepSecondsBuckets());

  Counter spec_decode_num_drafts_total =
      registry_.MakeCounter("outrider_spec_decode_num_drafts_total", "Rounds with a draft");
  Counter spec_decode_num_draft_tokens_total =
      registry_.MakeCounter("outrider_spec_decode_num_draft_tokens_total", "Draft tokens scored");
  Counter spec_decode_num_accepted_tokens_total = registry_.MakeCounter(
      "outrider_spec_decode_num_accepted_tokens_total", "Draft tokens accepted");
  // Only of requests with drafts.
  Histogram spec_decode_request_acceptance_rate =
      registry_.MakeHistogram("outrider_spec_decode_request_acceptance_rate",
                              "Share of a finished request's draft tokens that were accepted",
                              {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1});

  Counter spec_decode_multipath_drafts_total = registry_.MakeCounter(
      "outrider_spec_decode_multipath_drafts_total", "Rounds with several sampled sequences");
  Counter spec_decode_kseq_acceptance_total = registry_.MakeCounter(
      "outrider_spec_decode_kseq_acceptance_total",
      "Sum over those rounds of the probability that k-SEQ accepts the first token");
  // Each is SpecTr's alpha_k.
  Counter spec_decode_optimal_acceptance_total = registry_.MakeCounter(
      "outrider_spec_decode_optimal_acceptance_total",
      "Sum over those rounds of the largest probability that any rule could reach");
  Counter draft_bytes_received_total = registry_.MakeCounter(
      "outrider_draft_bytes_received_total", "Bytes of drafts received over the wire");
  Counter draft_bytes_sent_total = registry_.MakeCounter(
      "outrider_draft_bytes_sent_total", "Bytes sent to drafters: texts, verdicts and plans");
  Counter draft_tokens_late_total =
      registry_.MakeCounter("outrider_draft_tokens_late_total",
                            "Draft tokens that arrived after their round had gone on without them");
  Counter early_drafts_total = registry_.MakeCounter(
      "outrider_early_drafts_total", "Drafts sent before the verdict on the previous round");
  Counter early_drafts_used_total = registry_.MakeCounter(
      "outrider_early_drafts_used_total", "Of those, drafts that rounds used without waiting");
  // Only complete drafts in time, without those after many new tokens, which the drafter reads
  // before it drafts.
  Histogram draft_round_trip_seconds =
      registry_.MakeHistogram("outrider_draft_round_trip_seconds",
                              "From a plan's sending to its whole draft", StepSecondsBuckets());
  Histogram draft_drafting_seconds = registry_.MakeHistogram(
      "outrider_draft_drafting_seconds",
      "The drafter's own part of that, as it reports; the rest is the network's",
      StepSecondsBuckets());

  // Counts the first `accepted` positions of a round's draft as accepted.
  void CountAcceptedPositions(int accepted);
  // By position, from 0.
  const std::vector<Counter>& accepted_per_position() const { return accepted_per_pos_; }

  // Rounds that the controller chose, by arm, in the order of the names.
  struct Arm {
    Counter rounds;
    Counter tokens;
    Counter seconds;
    Gauge expected_tokens_per_second;
  };
  std::vector<Arm> arms;

  Gauge drafters_connected =
      registry_.MakeGauge("outrider_drafters_connected", "Drafters attached");
  Gauge drafters_silent = registry_.MakeGauge(
      "outrider_drafters_silent", "Of these, suspended ones, whose drafts are not waited for");
  Gauge drafters_wanted = registry_.MakeGauge("outrider_drafters_wanted",
                                              "Drafters that the verifier asks for, by its load");
  Gauge drafters_helping = registry_.MakeGauge(
      "outrider_drafters_helping",
      "Attached drafters that are neither suspended nor about to leave, as drafters are told");
  Gauge drafters_translating = registry_.MakeGauge("outrider_drafters_translating",
                                                   "Attached drafters with another vocabulary");
  Gauge drafter_shared_vocabulary_ratio =
      registry_.MakeGauge("outrider_drafter_shared_vocabulary_ratio",
                          "Share of such a drafter's tokens that the target also has: the least of "
                          "all, 1 without such drafters");
  Counter drafters_refused_total =
      registry_.MakeCounter("outrider_drafters_refused_total", "Drafters refused at their hello");
  // The drafter ended its stream, as on a normal stop.
  Counter drafters_left_closed = DraftersLeft("closed");
  // Its connection broke.
  Counter drafters_left_gone = DraftersLeft("gone");
  // We ended its stream because of what it sent.
  Counter drafters_left_protocol_error = DraftersLeft("protocol_error");
  // Too many messages waited, on either side, or for too long.
  Counter drafters_left_overload = DraftersLeft("overload");
  // It was of no use, and another one needed its place.
  Counter drafters_left_displaced = DraftersLeft("displaced");
  Counter rounds_total =
      registry_.MakeCounter("outrider_rounds_total", "Rounds decided, plain ones included");
  Counter plain_rounds_total =
      registry_.MakeCounter("outrider_plain_rounds_total", "Rounds without a draft");
  Counter forced_tokens_total = registry_.MakeCounter("outrider_forced_tokens_total",
                                                      "Tokens that requests' grammars forced");
  // For rounds after a request's first, the time they took, and the time that plain decoding would
  // have taken for their tokens at the same load (verifier/control/plain_time.h). The second over
  // the first is the speculative-decoding speedup.
  Counter round_seconds_total =
      registry_.MakeCounter("outrider_round_seconds_total",
                            "Time of rounds after a request's first, from verdict to verdict: "
                            "forward passes, waits for drafts, prompts of others");
  Counter round_seconds_if_plain_total = registry_.MakeCounter(
      "outrider_round_seconds_if_plain_total",
      "Time that plain decoding would have taken for the tokens of these rounds at the same load; "
      "rounds that no draft touches count what they took");
  Counter device_rounds_total =
      registry_.MakeCounter("outrider_device_rounds_total",
                            "Rounds that the device decided without copying logits to the host");
  Counter device_to_host_bytes_total = registry_.MakeCounter(
      "outrider_device_to_host_bytes_total", "Bytes copied from the device: logits, verdicts");
  Counter device_graph_launches_total = registry_.MakeCounter(
      "outrider_device_graph_launches_total", "Forward passes that the device ran as one graph");
  Counter device_graph_captures_total =
      registry_.MakeCounter("outrider_device_graph_captures_total", "Graphs captured for that");
  Counter sessions_moved_total = registry_.MakeCounter(
      "outrider_sessions_moved_total", "Sessions moved from a late drafter to another one");
  Counter draft_timeouts_total = registry_.MakeCounter(
      "outrider_draft_timeouts_total", "Rounds whose draft was incomplete at the deadline");
  Counter arm_switches_total = registry_.MakeCounter(
      "outrider_spec_decode_arm_switches_total", "Rounds with another arm than the previous round");
  // By verifier/control/drafting_guard.h.
  Gauge drafters_held_back = registry_.MakeGauge(
      "outrider_drafters_held_back",
      "1 while no session asks a drafter, because the engine is faster without or compares");
  Gauge drafters_measured_speedup =
      registry_.MakeGauge("outrider_drafters_measured_speedup",
                          "Tokens in a time with drafters over those without, by comparison at the "
                          "present load; 0: not compared");
  Gauge arm_regret_seconds = registry_.MakeGauge(
      "outrider_spec_decode_arm_regret_seconds",
      "Time of all rounds minus the expected time of the best known arm for their tokens");
  Histogram engine_step_seconds = registry_.MakeHistogram(
      "outrider_engine_step_seconds", "One step of the engine: batch, forward pass, verification",
      StepSecondsBuckets());
  // A device is idle meanwhile.
  Histogram engine_host_seconds = registry_.MakeHistogram(
      "outrider_engine_host_seconds",
      "From a forward pass and its verdicts to the start of the next pass, without waits for "
      "requests and drafts",
      {1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1});
  Histogram batch_rows = registry_.MakeHistogram(
      "outrider_batch_rows", "Token rows of one forward pass", RowCountBuckets());
  TraceCounters trace_spans = {
      .written =
          registry_.MakeCounter("outrider_trace_spans_total", "Spans written to --trace-file"),
      .dropped = registry_.MakeCounter("outrider_trace_spans_dropped_total",
                                       "Spans lost because the disk was too slow, full or gone"),
      .sent = registry_.MakeCounter("outrider_trace_spans_sent_total",
                                    "Spans that the collector of --trace-endpoint accepted"),
      .not_sent = registry_.MakeCounter(
          "outrider_trace_spans_not_sent_total",
          "Spans lost because that collector rejected them, was too slow or gone")};

 private:
  Counter Finished(const char* reason);
  Counter Refused(const char* reason);
  Counter DraftersLeft(const char* reason);

  // By position in the draft, from 0.
  std::vector<Counter> accepted_per_pos_;
};

// What does not change while a model is served.
struct ServedModelConfig {
  int page_tokens = 0;
  int pages = 0;    // of the KV cache
  int devices = 1;  // among which the model is divided
};
// Exports it. The size of the cache is in labels of outrider_cache_config_info, whose value is 1,
// as vLLM does: endpoint pickers read it.
void ExportConfig(MetricsRegistry& registry, const ServedModelConfig& config);

}  // namespace outrider
