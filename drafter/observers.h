// Turns events of the loop and the links into metrics, health and the decision to exit.
//
// Owner: main; outlives loop and links. Thread: any.
#pragma once

#include <atomic>
#include <string>

#include "common/metrics/readiness.h"
#include "common/rpc/server.h"
#include "drafter/metrics.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/rpc/verifier_links.h"

namespace outrider {

class LoopMetrics final : public DraftObserver {
 public:
  explicit LoopMetrics(DrafterMetrics* metrics) : metrics_(metrics) {}
  void OnStep(const StepReport& report) override;
  void OnLoad(const DrafterLoad& load) override;
  void OnOpened(const HeldSession& held, const SessionOpening& open, Time now) override;
  void OnDraftSent(const HeldSession& held, double seconds, Time now) override;
  void OnVerdictAhead(const HeldSession& held, bool hit) override;
  void OnHead(float bias, float threshold) override;

 private:
  DrafterMetrics* metrics_;
  GraphCounts graphs_;  // those that the metrics include
};

// Health checks get "serving", and GET /ready 200, while at least one verifier is attached.
class Attachments final : public LinksObserver {
 public:
  // `health` and `exporter` are nullptr if their ports are off. With `exit_on_refusal` a refusal
  // ends the process.
  Attachments(DrafterMetrics* metrics, RpcServer* health, MetricsExporter* exporter,
              bool exit_on_refusal);

  void OnAttached(const std::string& address, const DrafterWelcome& welcome) override;
  void OnDetached(const std::string& address) override;
  void OnLost(const std::string& address) override;
  void OnDemand(const std::string& /*address*/, const DrafterDemand& /*demand*/) override {}
  void OnRefused(const std::string& address, const Status& why) override;
  void OnVerifiers(int count) override;
  void OnSubset(int held, int leaving, int other_zone) override;
  void OnStreamLeft(SubsetReason why) override;
  void OnLookupFailed(const std::string& target, const Status& why) override;

  // Reports not ready from now on, whatever is still attached.
  void Drain() OUTRIDER_EXCLUDES(mu_);

  // Whether a refusal ended the process.
  bool refused() const { return refused_; }

 private:
  void Change(int change);
  void SetServing(bool serving);

  DrafterMetrics* metrics_;
  RpcServer* health_;
  Readiness ready_;
  const bool exit_on_refusal_;
  std::atomic<bool> refused_ = false;
  Mutex mu_;
  int attached_ OUTRIDER_GUARDED_BY(mu_) = 0;
  bool draining_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
