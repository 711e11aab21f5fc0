// What the drafting loop reports of its work, for metrics and traces. Observers only watch: nothing
// that they do changes a draft.
//
// Thread: the drafting loop. Calls must not wait, and must not call the loop.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "drafter/propose/held_session.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

// One forward pass. Of several in one go each has the mean time, the first the bytes.
struct StepReport {
  int sessions = 0;        // that took part
  int rows = 0;            // tokens computed
  int drafted_tokens = 0;  // draft tokens; those that several sequences share count once
  bool ahead = false;      // made ahead of verdicts
  // On a model's device: logits rows that were read there, and the bytes that came to the host.
  int device_rows = 0;
  int64_t device_bytes = 0;
  int broken_rows = 0;  // of those to be drawn from, NaN or infinite
  double seconds = 0;
  GraphCounts graphs;  // of the model, so far
};

class DraftObserver {
 public:
  virtual ~DraftObserver() = default;

  virtual void OnStep(const StepReport&) {}
  // The load has changed.
  virtual void OnLoad(const DrafterLoad&) {}
  // A session is held from now on, with its first plan still to be looked at.
  virtual void OnOpened(const HeldSession&, const SessionOpening&, Time /*now*/) {}
  // A draft is sent to its end, `seconds` after its plan came.
  virtual void OnDraftSent(const HeldSession&, double /*seconds*/, Time /*now*/) {}
  // A verdict came that was drafted ahead of; `hit`: it is answered with what was there.
  virtual void OnVerdictAhead(const HeldSession&, bool /*hit*/) {}
  // The acceptance head's correction, and where it would stop a plan that names no threshold.
  virtual void OnHead(float /*bias*/, float /*threshold*/) {}
  // The session's plan is answered without tokens. OnClosed follows.
  virtual void OnRefused(const HeldSession&, const Status&) {}
  // The session is forgotten.
  virtual void OnClosed(const HeldSession&) {}
};

class DraftObservers {
 public:
  // `observer` must outlive the calls of Notify.
  void Add(DraftObserver* observer) { all_.push_back(observer); }

  // Calls `event` of each, in the order of Add.
  template <class... Params, class... Args>
  void Notify(void (DraftObserver::*event)(Params...), const Args&... args) {
    for (DraftObserver* observer : all_) (observer->*event)(args...);
  }

 private:
  std::vector<DraftObserver*> all_;
};

}  // namespace outrider
