#include "verifier/engine/metrics_observer.h"

#include <algorithm>
#include <utility>

#include "verifier/engine/batch_entry.h"
#include "verifier/engine/session.h"

namespace outrider {

void MetricsObserver::OnRequestRefused(Refusal why) {
  switch (why) {
    case Refusal::kQueueFull: return metrics_.requests_refused_queue_full.Increment();
    case Refusal::kClientShare: return metrics_.requests_refused_client_share.Increment();
    case Refusal::kDraining: return metrics_.requests_refused_draining.Increment();
  }
}

void MetricsObserver::OnAdmitted(const Session& session, int looked_up, int cached, bool is_first) {
  metrics_.prefix_cache_queries_total.Increment(looked_up);
  metrics_.prefix_cache_hits_total.Increment(cached);
  if (!is_first) return;
  metrics_.prompt_tokens_total.Increment(session.prompt_tokens);
  metrics_.request_queue_time_seconds.Observe(
      Seconds(*session.times.admitted - session.times.submitted));
}

void MetricsObserver::OnPreempted(const Session& /*session*/) {
  metrics_.num_preemptions_total.Increment();
}

void MetricsObserver::OnForward(const ForwardPass& pass) {
  metrics_.batch_rows.Observe(pass.rows);
  if (pass.host_seconds.has_value()) metrics_.engine_host_seconds.Observe(*pass.host_seconds);
  if (model_.device() == nullptr) return;
  metrics_.device_rounds_total.Increment(static_cast<double>(
      std::count_if(pass.batch.begin(), pass.batch.end(), [](const BatchEntry& entry) {
        return entry.ends_round && !entry.session->request.logprobs.has_value();
      })));
}

void MetricsObserver::OnFirstTokenAcceptance(const FirstTokenAcceptance& acceptance) {
  metrics_.spec_decode_multipath_drafts_total.Increment();
  metrics_.spec_decode_kseq_acceptance_total.Increment(acceptance.kseq);
  metrics_.spec_decode_optimal_acceptance_total.Increment(acceptance.optimum);
}

void MetricsObserver::OnRound(const Session& session, const Chunk& chunk, Time now) {
  const auto tokens = static_cast<double>(chunk.tokens.size());
  metrics_.rounds_total.Increment();
  metrics_.generation_tokens_total.Increment(tokens);
  metrics_.forced_tokens_total.Increment(chunk.forced);
  if (chunk.drafted == 0) {
    metrics_.plain_rounds_total.Increment();
  } else {
    metrics_.spec_decode_num_drafts_total.Increment();
    metrics_.spec_decode_num_draft_tokens_total.Increment(chunk.drafted);
    metrics_.spec_decode_num_accepted_tokens_total.Increment(chunk.accepted);
    metrics_.CountAcceptedPositions(chunk.accepted);
  }
  if (session.round == 1) {
    metrics_.time_to_first_token_seconds.Observe(Seconds(now - session.times.submitted));
    return;
  }
  // A round's tokens arrive together, so each gets its share of the wait.
  const double waited = Seconds(now - session.times.last_token);
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    metrics_.inter_token_latency_seconds.Observe(waited / tokens);
  }
}

void MetricsObserver::OnDraftLate(const Session& /*session*/) {
  metrics_.draft_timeouts_total.Increment();
}

void MetricsObserver::OnNotFinite(const Session& /*session*/) {
  metrics_.requests_not_finite.Increment();
}

void MetricsObserver::OnEnded(const Session& session, const Status& status, Time now) {
  if (!status.ok()) return metrics_.request_success_abort.Increment();
  const Summary& summary = session.summary;
  (summary.reason == FinishReason::kStop ? metrics_.request_success_stop
                                         : metrics_.request_success_length)
      .Increment();
  if (summary.drafted_tokens > 0) {
    metrics_.spec_decode_request_acceptance_rate.Observe(
        static_cast<double>(summary.accepted_tokens) / summary.drafted_tokens);
  }
  metrics_.e2e_request_latency_seconds.Observe(Seconds(now - session.times.submitted));
  metrics_.request_prefill_time_seconds.Observe(summary.prefill_seconds);
  metrics_.request_decode_time_seconds.Observe(summary.decode_seconds);
  metrics_.request_inference_time_seconds.Observe(summary.prefill_seconds + summary.decode_seconds);
  if (summary.completion_tokens > 1) {
    metrics_.request_time_per_output_token_seconds.Observe(summary.decode_seconds /
                                                           (summary.completion_tokens - 1));
  }
  metrics_.request_prompt_tokens.Observe(summary.prompt_tokens);
  metrics_.request_generation_tokens.Observe(summary.completion_tokens);
  if (session.request.max_tokens.has_value()) {
    metrics_.request_params_max_tokens.Observe(*session.request.max_tokens);
  }
}

void MetricsObserver::OnStepEnd(const EngineLevels& levels, std::optional<double> forward_seconds,
                                Time /*now*/) {
  if (forward_seconds.has_value()) {
    metrics_.engine_step_seconds.Observe(*forward_seconds);
    CountDevice();
  }
  metrics_.num_requests_running.Set(levels.running);
  metrics_.num_requests_waiting.Set(levels.waiting);
  metrics_.kv_pages_used.Set(levels.total_pages - levels.free_pages);
  metrics_.prefix_cache_pages.Set(levels.cached_pages);
  const double total = levels.total_pages;
  metrics_.kv_cache_requests_perc.Set(std::min(1.0, levels.sequence_pages / total));
  metrics_.kv_cache_usage_perc.Set(1.0 - levels.free_pages / total);
}

void MetricsObserver::CountDevice() {
  const DeviceModel* const device = model_.device();
  if (device == nullptr) return;
  const int64_t bytes = device->bytes_to_host();
  metrics_.device_to_host_bytes_total.Increment(
      static_cast<double>(bytes - std::exchange(bytes_to_host_, bytes)));
  const GraphCounts now = device->graph_counts(), before = std::exchange(graphs_, now);
  metrics_.device_graph_launches_total.Increment(
      static_cast<double>(now.launches - before.launches));
  metrics_.device_graph_captures_total.Increment(
      static_cast<double>(now.captures - before.captures));
}

}  // namespace outrider
