// Events of the drafting loop for metrics and traces. Observers only watch: nothing they do changes
// a draft.
//
// Thread: the drafting loop. Calls must not block, and must not call the loop.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/model/model.h"
#include "drafter/propose/held_session.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

// One forward pass. If several ran in one go, each reports the mean time, and the first the bytes.
struct StepReport {
  int sessions = 0;        // taking part
  int rows = 0;            // tokens computed
  int drafted_tokens = 0;  // tokens that several sequences share count once
  bool ahead = false;      // for lookahead drafting
  // With a device: logits rows that were read there, and bytes that were copied to the host.
  int device_rows = 0;
  int64_t device_bytes = 0;
  int broken_rows = 0;  // rows to sample from that were NaN or infinite
  double seconds = 0;
  GraphCounts graphs;  // total of the model
};

class DraftObserver {
 public:
  virtual ~DraftObserver() = default;

  virtual void OnStep(const StepReport&) {}
  // The load has changed.
  virtual void OnLoad(const DrafterLoad&) {}
  // A session has been opened; its first plan is still to be processed.
  virtual void OnOpened(const HeldSession&, const SessionOpening&, Time /*now*/) {}
  // A draft has been sent completely, `seconds` after its plan arrived.
  virtual void OnDraftSent(const HeldSession&, double /*seconds*/, Time /*now*/) {}
  // A verdict arrived after lookahead drafting; `hit`: its draft was already there.
  virtual void OnVerdictAhead(const HeldSession&, bool /*hit*/) {}
  // The acceptance head's bias correction, and its threshold for plans that name none.
  virtual void OnHead(float /*bias*/, float /*threshold*/) {}
  // The session's plan gets an empty answer. OnClosed follows.
  virtual void OnRefused(const HeldSession&, const Status&) {}
  // The session has been forgotten.
  virtual void OnClosed(const HeldSession&) {}
};

class DraftObservers {
 public:
  // `observer` must outlive the calls of Notify.
  void Add(DraftObserver* observer) { all_.push_back(observer); }

  // Calls `event` on each, in the order of Add.
  template <class... Params, class... Args>
  void Notify(void (DraftObserver::*event)(Params...), const Args&... args) {
    for (DraftObserver* observer : all_) (observer->*event)(args...);
  }

 private:
  std::vector<DraftObserver*> all_;
};

}  // namespace outrider
