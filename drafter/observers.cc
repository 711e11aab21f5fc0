#include "drafter/observers.h"

#include <unistd.h>

#include <csignal>
#include <utility>

#include "common/base/log.h"
#include "common/rpc/service_names.h"

namespace outrider {

void LoopMetrics::OnStep(const StepReport& report) {
  metrics_->draft_tokens_total.Increment(report.drafted_tokens);
  metrics_->not_finite_rows_total.Increment(report.broken_rows);
  if (report.ahead) metrics_->ahead_tokens_total.Increment(report.drafted_tokens);
  metrics_->forward_seconds.Observe(report.seconds);
  metrics_->batch_rows.Observe(report.rows);
  const GraphCounts before = std::exchange(graphs_, report.graphs);
  metrics_->device_graph_launches_total.Increment(
      static_cast<double>(graphs_.launches - before.launches));
  metrics_->device_graph_captures_total.Increment(
      static_cast<double>(graphs_.captures - before.captures));
  metrics_->device_rows_total.Increment(report.device_rows);
  metrics_->device_to_host_bytes_total.Increment(static_cast<double>(report.device_bytes));
}

void LoopMetrics::OnLoad(const DrafterLoad& load) { metrics_->sessions.Set(load.sessions); }

void LoopMetrics::OnOpened(const HeldSession& held, const SessionOpening& /*open*/, Time /*now*/) {
  if (!held.prefix_tokens.has_value()) return;
  metrics_->prefix_cache_queries_total.Increment(held.mirror->session.length());
  metrics_->prefix_cache_hits_total.Increment(*held.prefix_tokens);
}

void LoopMetrics::OnDraftSent(const HeldSession& held, double seconds, Time /*now*/) {
  metrics_->drafts_sent_total.Increment();
  metrics_->draft_depth.Observe(held.mirror->session.depths_drawn());
  metrics_->draft_seconds.Observe(seconds);
}

void LoopMetrics::OnVerdictAhead(const HeldSession& /*held*/, bool hit) {
  metrics_->ahead_verdicts_total.Increment();
  if (hit) metrics_->ahead_hits_total.Increment();
}

void LoopMetrics::OnHead(float bias, float threshold) {
  metrics_->head_bias.Set(static_cast<double>(bias));
  metrics_->head_threshold.Set(static_cast<double>(threshold));
}

Attachments::Attachments(DrafterMetrics* metrics, RpcServer* health, MetricsExporter* exporter,
                         bool exit_on_refusal)
    : metrics_(metrics),
      health_(health),
      ready_(exporter, "attached to no verifier"),
      exit_on_refusal_(exit_on_refusal) {
  Change(0);
}

void Attachments::OnAttached(const std::string& address, const DrafterWelcome& welcome) {
  Log(LogLevel::kInfo, "attached",
      {{"verifier", address}, {"protocol", welcome.protocol}, {"zone", welcome.zone}});
  Change(+1);
}

void Attachments::OnDetached(const std::string& address) {
  Log(LogLevel::kInfo, "detached", {{"verifier", address}});
  Change(-1);
}

void Attachments::OnLost(const std::string& /*address*/) { metrics_->reconnects_total.Increment(); }

void Attachments::OnRefused(const std::string& /*address*/, const Status& why) {
  if (!exit_on_refusal_ || why.code() == Code::kResourceExhausted)
    return;  // it may have room later
  MutexLock lock(mu_);
  // A second signal would end the process at once, with another exit code.
  if (draining_ || refused_.exchange(true)) return;
  kill(getpid(), SIGTERM);  // main waits for it
}

void Attachments::OnVerifiers(int count) { metrics_->verifiers.Set(count); }

void Attachments::OnSubset(int held, int leaving, int other_zone) {
  metrics_->subset_streams.Set(held);
  metrics_->draining_streams.Set(leaving);
  metrics_->other_zone_streams.Set(other_zone);
}

void Attachments::OnStreamLeft(SubsetReason why) { metrics_->streams_left.at(why).Increment(); }

void Attachments::OnLookupFailed(const std::string& /*target*/, const Status& /*why*/) {
  metrics_->lookups_failed_total.Increment();
}

void Attachments::Drain() {
  MutexLock lock(mu_);
  draining_ = true;
  SetServing(false);
}

void Attachments::Change(int change) {
  MutexLock lock(mu_);
  attached_ += change;
  metrics_->attached.Set(attached_);
  SetServing(attached_ > 0 && !draining_);
}

void Attachments::SetServing(bool serving) {
  if (health_ != nullptr) health_->SetServing(kDraftingService, serving);
  ready_.Set(serving);
}

}  // namespace outrider
