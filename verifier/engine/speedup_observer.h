// Counts the time of rounds, and the time that plain decoding would have taken for the same tokens
// at the same load (verifier/control/plain_time.h).
//
// Owner: the engine. Thread: the engine thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "verifier/control/plain_time.h"
#include "verifier/engine/engine_observer.h"
#include "verifier/engine/metrics.h"

namespace outrider {

class SpeedupObserver final : public EngineObserver {
 public:
  // `metrics` must outlive it.
  explicit SpeedupObserver(VerifierMetrics* metrics) : metrics_(*metrics) {}

  void OnPreempted(const Session& session) override;
  void OnForward(const ForwardPass& pass) override;
  void OnStepBegin(Time now) override;
  void OnRound(const Session& session, const Chunk& chunk, Time now) override;
  void OnEnded(const Session& session, const Status& status, Time now) override;
  void OnStepEnd(const EngineLevels& levels, std::optional<double> forward_seconds,
                 Time now) override;

 private:
  // A decoding sequence: its first token is out, and its text is computed (again, after a
  // preemption).
  struct Decoding {
    const Session* session = nullptr;
    // The end of the step that ended its last round, from which the round under way counts, and
    // PlainTime::prompt_seconds() then.
    Time since;
    double prompt_seconds = 0;
  };
  struct EndedRound {
    const Session* session = nullptr;  // nullptr: the request has ended with it
    std::optional<Decoding> decoding;  // nullopt: it did not decode yet
    int tokens = 0;
    bool asked = false;
  };

  VerifierMetrics& metrics_;
  PlainTime plain_time_;
  std::map<uint64_t, Decoding> decoding_;  // by session
  // The step under way.
  PlainTime::Step step_;
  std::vector<EndedRound> ended_rounds_;
  Time step_began_;  // the end of the previous step, unless that had nothing to compute
  bool was_idle_ = true;
};

}  // namespace outrider
