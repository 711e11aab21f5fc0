// Lookahead drafting (as in PEARL and SpecEdge): chooses, while verdicts are under way, which
// guesses of their outcome go into the next forward pass. SessionLookahead holds one session's
// guesses, AheadGate decides whether they make rounds shorter.
//
// Owner: DraftLoop. Thread: the drafting loop.
#pragma once

#include <memory>
#include <vector>

#include "common/base/clock.h"
#include "common/model/model.h"
#include "drafter/propose/ahead_gate.h"
#include "drafter/propose/draft_observer.h"
#include "drafter/propose/draft_sessions.h"
#include "drafter/propose/mirror.h"
#include "drafter/propose/pass_plan.h"
#include "drafter/propose/verifier_link.h"

namespace outrider {

struct LookaheadOptions {
  int tokens = 0;    // per verdict; 0: no lookahead drafting
  int max_rows = 4;  // per forward pass, for whose end a verdict may have to wait
};

class Lookahead {
 public:
  // All must outlive it, and it must outlive the guesses that `sessions` holds.
  Lookahead(const LookaheadOptions& options, Model* model, DraftSessions* sessions,
            DraftObservers* observers)
      : options_(options), model_(model), sessions_(sessions), observers_(observers) {}

  // Shares of a forward pass that no verifier waits for: the most likely guess of every session,
  // then the second of every session, and so on. Empty: there is nothing to do, or lookahead
  // drafting does not pay.
  std::vector<PassShare> Plan();

  // The session's draft is complete.
  void OnDraftComplete(HeldSession& held, Time now);
  // The session after `verdict`, with a draft for its plan begun, if that outcome was guessed.
  // Drops the session's guesses.
  SessionLookahead::Hit TakeMatch(HeldSession& held, const SessionVerdict& verdict);

 private:
  // Shares of the sessions whose draft is complete, in turns; begins their guesses.
  std::vector<PassShare> Idle();

  const LookaheadOptions options_;
  Model* const model_;
  DraftSessions* const sessions_;
  DraftObservers* const observers_;
  AheadGate gate_;
};

}  // namespace outrider
