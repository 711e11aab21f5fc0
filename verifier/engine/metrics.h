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
  // `arm_names`: the controller's arms; empty without one.
  explicit VerifierMetrics(MetricsRegistry& registry,
                           const std::vector<std::string>& arm_names = {});

  // Times of a request in seconds. Each is observed once, when it is known.
  Histogram time_to_first_token_seconds;
  Histogram inter_token_latency_seconds;  // time between chunks over the tokens of the later one
  Histogram e2e_request_latency_seconds;
  Histogram request_queue_time_seconds;
  Histogram request_prefill_time_seconds;
  Histogram request_decode_time_seconds;
  Histogram request_inference_time_seconds;  // admission to end
  // decode time over the tokens after the first; only of requests that have such tokens
  Histogram request_time_per_output_token_seconds;
  // In tokens, observed once per request.
  Histogram request_prompt_tokens;
  Histogram request_generation_tokens;
  Histogram request_params_max_tokens;  // only if the request names it

  Gauge num_requests_running;
  Gauge num_requests_waiting;
  Gauge kv_cache_usage_perc;     // in [0, 1]; pages that only the prefix cache holds count
  Gauge kv_cache_requests_perc;  // in [0, 1]; held by running requests: vLLM's usage
  Gauge kv_pages_used;
  Gauge prefix_cache_pages;  // used pages that the cache holds, alone or with sessions

  Counter num_preemptions_total;
  // In tokens: of prompts looked up, and of these, those found in the cache.
  Counter prefix_cache_queries_total;
  Counter prefix_cache_hits_total;

  Counter prompt_tokens_total;
  Counter generation_tokens_total;
  // outrider_request_success_total by finished_reason.
  Counter request_success_stop;
  Counter request_success_length;
  Counter request_success_abort;  // the client cancelled or went away
  // outrider_requests_refused_total by reason.
  Counter requests_refused_queue_full;
  Counter requests_refused_client_share;  // of the queue
  Counter requests_refused_draining;
  Counter requests_not_finite;               // ended because their logits were NaN or infinite
  Counter requests_refused_tokenizer_queue;  // before their text was tokenized

  Gauge tokenizer_requests_waiting;
  Histogram tokenizer_seconds;  // a worker's time for one request's text

  // Rounds with a draft, the tokens drafted in them and those accepted.
  Counter spec_decode_num_drafts_total;
  Counter spec_decode_num_draft_tokens_total;
  Counter spec_decode_num_accepted_tokens_total;
  // Per finished request with drafts: the share of its draft tokens that were accepted, in [0, 1].
  Histogram spec_decode_request_acceptance_rate;

  // Rounds with several sampled sequences; summed over them, the probability that k-SEQ accepts the
  // first token, and the largest that any rule could reach (SpecTr's alpha_k).
  Counter spec_decode_multipath_drafts_total;
  Counter spec_decode_kseq_acceptance_total;
  Counter spec_decode_optimal_acceptance_total;
  Counter draft_bytes_received_total;  // drafts as received over the wire
  Counter draft_bytes_sent_total;      // to drafters
  Counter draft_tokens_late_total;     // that arrived after their round had gone on without them
  Counter early_drafts_total;          // that arrived before the verdict on the previous round
  Counter early_drafts_used_total;     // of these, the drafts that rounds went on with
  // Only complete drafts in time, without those after many new tokens, which the drafter reads
  // before it drafts.
  Histogram draft_round_trip_seconds;  // plan sent to draft complete
  Histogram draft_drafting_seconds;    // the drafter's own part of that, as it reports

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

  Gauge drafters_connected;
  Gauge drafters_silent;
  Gauge drafters_wanted;                  // by the present load
  Gauge drafters_helping;                 // attached, and neither suspended nor about to leave
  Gauge drafters_translating;             // with another vocabulary
  Gauge drafter_shared_vocabulary_ratio;  // the least of all drafters; 1 without drafters
  Counter drafters_refused_total;
  // outrider_drafters_left_total by reason.
  Counter drafters_left_closed;          // the drafter ended its stream, as on a normal stop
  Counter drafters_left_gone;            // its connection broke
  Counter drafters_left_protocol_error;  // we ended its stream because of what it sent
  Counter drafters_left_overload;        // too many messages waited, on either side
  Counter drafters_left_displaced;       // suspended, and another one needed its place
  Counter rounds_total;                  // including plain ones
  Counter plain_rounds_total;            // without a draft
  Counter forced_tokens_total;           // by grammars
  // For rounds after a request's first, the time they took, and the time that plain decoding would
  // have taken for their tokens at the same load (verifier/control/plain_time.h). The second over
  // the first is the speculative-decoding speedup.
  Counter round_seconds_total;
  Counter round_seconds_if_plain_total;
  Counter device_rounds_total;          // of all, those whose logits stayed on the device
  Counter device_to_host_bytes_total;   // from the target's device: logits rows, verdicts
  Counter device_graph_launches_total;  // forward passes that the device ran as one graph
  Counter device_graph_captures_total;  // graphs captured for that
  Counter sessions_moved_total;
  Counter draft_timeouts_total;  // rounds whose draft was incomplete at the deadline
  Counter arm_switches_total;
  // By verifier/control/drafting_guard.h.
  Gauge drafters_held_back;         // 1: no session may ask a drafter now
  Gauge drafters_measured_speedup;  // with drafters over without, at this load; 0: unknown
  Gauge arm_regret_seconds;
  Histogram engine_step_seconds;
  Histogram batch_rows;  // token rows of one forward pass
  TraceCounters trace_spans;

 private:
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
