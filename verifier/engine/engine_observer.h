// Events of the engine for metrics, traces and the status page. Observers only watch: nothing they
// do changes a text, a plan or a deadline.
//
// Thread: the engine thread. Calls must not block, and must not call the engine.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rules/round_batch.h"
#include "verifier/engine/sink.h"

namespace outrider {

struct BatchEntry;
struct Session;

// Why a request was not queued.
enum class Refusal { kQueueFull, kClientShare, kDraining };

struct ForwardPass {
  std::span<const BatchEntry> batch;
  int rows = 0;  // in total
  // From the end of the pass before, its verdicts included, to the start of this one. nullopt: the
  // engine waited for requests or drafts in between.
  std::optional<double> host_seconds;
};

// The engine's state at the end of a step.
struct EngineLevels {
  int running = 0;  // with KV pages
  int waiting = 0;
  int total_pages = 0;
  int free_pages = 0;
  int cached_pages = 0;    // held by the prefix cache, alone or with sequences
  int sequence_pages = 0;  // held by running sequences; shared pages count for each
};

class EngineObserver {
 public:
  virtual ~EngineObserver() = default;

  virtual void OnRequestRefused(Refusal) {}
  virtual void OnSubmitted(const Session&) {}
  virtual void OnStepBegin(Time /*now*/) {}
  // The sequence got KV pages. `looked_up` tokens of its text were looked up in the prefix cache;
  // `cached` are already computed. `is_first`: it was not preempted before.
  virtual void OnAdmitted(const Session&, int /*looked_up*/, int /*cached*/, bool /*is_first*/) {}
  virtual void OnPreempted(const Session&) {}
  // A forward pass was started, which a device may still compute.
  virtual void OnForward(const ForwardPass&) {}
  virtual void OnFirstTokenAcceptance(const FirstTokenAcceptance&) {}
  // A round is decided. The session is still in the state before it: its draft is there, its round
  // and its last token's time are those of the round before.
  virtual void OnRound(const Session&, const Chunk&, Time /*now*/) {}
  virtual void OnDraftLate(const Session&) {}
  // The request cannot go on because its logits are not finite. OnEnded follows.
  virtual void OnNotFinite(const Session&) {}
  // The request has ended. `status`: OK, or why it was cancelled or failed.
  virtual void OnEnded(const Session&, const Status& /*status*/, Time /*now*/) {}
  // `forward_seconds`: of the step's forward pass and its processing; nullopt: there was nothing to
  // compute.
  virtual void OnStepEnd(const EngineLevels&, std::optional<double> /*forward_seconds*/,
                         Time /*now*/) {}
};

class EngineObservers {
 public:
  void Add(std::unique_ptr<EngineObserver> observer) { all_.push_back(std::move(observer)); }

  // Calls `event` on each, in the order of Add.
  template <class... Params, class... Args>
  void Notify(void (EngineObserver::*event)(Params...), const Args&... args) {
    for (const auto& observer : all_) (observer.get()->*event)(args...);
  }

 private:
  std::vector<std::unique_ptr<EngineObserver>> all_;
};

}  // namespace outrider
