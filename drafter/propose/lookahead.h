// Lookahead drafting (as in PEARL and SpecEdge): while verdicts are under way, which guesses of
// their outcome go into the next forward pass. SessionLookahead holds one session's guesses,
// AheadGate whether they make rounds shorter.
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
  int tokens = 0;    // computed ahead of one verdict; 0: no drafting ahead
  int max_rows = 4;  // tokens of one forward pass: a verdict that comes meanwhile waits for it
};

class Lookahead {
 public:
  // All must outlive it, and it the guesses that `sessions` holds.
  Lookahead(const LookaheadOptions& options, Model* model, DraftSessions* sessions,
            DraftObservers* observers)
      : options_(options), model_(model), sessions_(sessions), observers_(observers) {}

  // Shares of a forward pass that no verifier waits for: the most likely guess of every session,
  // then the second of every session, and so on. Empty: nothing to do, or drafting ahead does not
  // pay.
  std::vector<PassShare> Plan();

  // The session's draft is complete.
  void OnDraftComplete(HeldSession& held, Time now);
  // The session as `verdict` leaves it, with a draft for its plan begun, if that outcome was
  // guessed. The session's guesses are over.
  SessionLookahead::Hit Take(HeldSession& held, const SessionVerdict& verdict);

 private:
  // Of each session whose draft is complete, with its guesses begun; in turns.
  std::vector<PassShare> Idle();

  const LookaheadOptions options_;
  Model* const model_;
  DraftSessions* const sessions_;
  DraftObservers* const observers_;
  AheadGate gate_;
};

}  // namespace outrider
