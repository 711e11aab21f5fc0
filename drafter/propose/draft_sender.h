// Sends to verifiers: parts of drafts as they are sampled, and the load. Everything of one step
// goes to a verifier in one batch.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <optional>

#include "common/base/clock.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_sessions.h"
#include "drafter/propose/lookahead.h"

namespace outrider {

class DraftSender {
 public:
  // All must outlive it.
  DraftSender(DraftSessions* sessions, Lookahead* lookahead, DraftObservers* observers,
              const Clock* clock)
      : sessions_(sessions), lookahead_(lookahead), observers_(observers), clock_(clock) {}

  // Puts what was added to the session's draft since the last call into its connection's outbox.
  void QueueDraft(HeldSession& held);
  // The same for the draft of a guess, if it is complete: it is sent before the verdict.
  void QueueEarlyDraft(HeldSession& held, SessionLookahead::Guess* guess);
  // The session's whole draft was sent early.
  void MarkSent(HeldSession& held);
  // Sends the outboxes, and the load to verifiers that know an older one; closes connections that
  // are no longer wanted and hold nothing.
  void Flush();

 private:
  void OnComplete(HeldSession& held, double seconds, Time now);

  DraftSessions* const sessions_;
  Lookahead* const lookahead_;
  DraftObservers* const observers_;
  const Clock* const clock_;
  std::optional<DrafterLoad> observed_;  // the last one reported to observers
};

}  // namespace outrider
