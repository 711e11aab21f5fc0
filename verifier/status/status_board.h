// Samples the verifier once a second and answers for the status page: /status and /status.json on
// the metrics port, which is for operators and not for clients.
//
// It samples through the engine thread's inbox and never waits for it: the page gets the last
// sample, with its age. Nor does the engine wait for a page: it leaves a sample in a mailbox, whose
// lock is held for no longer than that, and the JSON is made from a history that the engine does
// not touch.
//
// Owner: main, between the engine's thread and the exporter's end. Thread: has its own.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/periodic.h"
#include "common/metrics/exporter.h"
#include "verifier/engine/engine.h"
#include "verifier/engine/engine_thread.h"
#include "verifier/engine/metrics.h"
#include "verifier/pool/drafter_roster.h"
#include "verifier/status/status_history.h"

namespace outrider {

class StatusBoard {
 public:
  // What it samples on the engine's thread, which ends before any of it is destroyed.
  struct Watched {
    Engine* engine = nullptr;
    const DrafterRoster* roster = nullptr;
    VerifierMetrics* metrics = nullptr;
    EngineThread* thread = nullptr;
  };

  StatusBoard(const Watched& watched, StatusHistory::Served served);

  // The pages may be requested after the board is gone: they show its last sample.
  void ServeOn(MetricsExporter& exporter) const;

 private:
  // Shared with running tasks and the pages.
  class Seen {
   public:
    Seen(StatusHistory::Served served, Time started) : history_(std::move(served), started) {}
    // Thread: the engine thread.
    void Leave(StatusSample sample, StatusNow now) OUTRIDER_EXCLUDES(mail_mu_);
    // Adds to the history what was left since the last call.
    void Collect() OUTRIDER_EXCLUDES(mu_);
    std::string ToJson(Time now) OUTRIDER_EXCLUDES(mu_);

   private:
    // More than ever wait, as the board collects them; older ones are kept.
    static constexpr size_t kMaxMail = 16;

    void TakeMail() OUTRIDER_REQUIRES(mu_);

    Mutex mail_mu_;
    std::vector<std::pair<StatusSample, StatusNow>> mail_ OUTRIDER_GUARDED_BY(mail_mu_);
    Mutex mu_;
    StatusHistory history_ OUTRIDER_GUARDED_BY(mu_);
  };
  // Thread: the engine thread.
  static void Sample(const Watched& watched, Seen& seen);

  const std::shared_ptr<Seen> seen_;
  Periodic sampler_;
};

}  // namespace outrider
