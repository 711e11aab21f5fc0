// Counts the engine's events in VerifierMetrics.
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <cstdint>

#include "common/model/model.h"
#include "verifier/engine/engine_observer.h"
#include "verifier/engine/metrics.h"

namespace outrider {

class MetricsObserver final : public EngineObserver {
 public:
  // Both must outlive it.
  MetricsObserver(VerifierMetrics* metrics, Model* model) : metrics_(*metrics), model_(*model) {}

  void OnRequestRefused(Refusal why) override;
  void OnAdmitted(const Session& session, int looked_up, int cached, bool is_first) override;
  void OnPreempted(const Session& session) override;
  void OnForward(const ForwardPass& pass) override;
  void OnFirstTokenAcceptance(const FirstTokenAcceptance& acceptance) override;
  void OnRound(const Session& session, const Chunk& chunk, Time now) override;
  void OnDraftLate(const Session& session) override;
  void OnNotFinite(const Session& session) override;
  void OnEnded(const Session& session, const Status& status, Time now) override;
  void OnStepEnd(const EngineLevels& levels, std::optional<double> forward_seconds,
                 Time now) override;

 private:
  void CountDevice();

  VerifierMetrics& metrics_;
  Model& model_;
  // The device's counts that the metrics already include.
  int64_t bytes_to_host_ = 0;
  GraphCounts graphs_;
};

}  // namespace outrider
