// The engine's view of the drafters: it opens sessions, reports each round's verdict and closes
// them; drafts come back through DraftConsumer. pool/ implements it over many drafters, tests by
// hand.
//
// Thread: the engine thread, both ways. A source never calls the consumer from within a call by the
// engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/spec/draft_tree.h"
#include "common/spec/drafting.h"
#include "verifier/control/policy.h"

namespace outrider {

// A drafter's measured speed, in seconds; NaN: unknown.
struct DraftTiming {
  double network = kUnknownSeconds;  // round trip
  double depth = kUnknownSeconds;    // drafting of one depth
  double last = kUnknownSeconds;     // drafting of this session's last draft
  double last_round_trip = 0;        // from its plan to its arrival
  double early = 0;  // share of drafts that arrive before plans that repeat the last one
  bool acceptance_head = false;  // it has one, which stop rules may name
  bool trial = false;  // it is suspended: a plan would test it, and would not wait for the draft
  std::string_view model = {};  // of the drafter; valid until the source's next call
};

// How long a round waits for its draft.
struct DraftTimeout {
  Duration usual{};    // zero: the round does not wait for this drafter
  bool trial = false;  // it is suspended: no request waits longer for it than this
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // Whether a drafter has room for one more session of `tokens` tokens, including its first draft.
  virtual bool HasRoom(int tokens) = 0;
  // REQUIRES: HasRoom for the session's tokens and its plan.
  virtual void Open(SessionOpening opening) = 0;
  virtual void Decide(SessionVerdict decision) = 0;
  // The whole draft for the plan of the last Decide, if the drafter sent it early, else nullptr.
  // Valid until the source's next call.
  virtual const DraftTree* EarlyDraft(uint64_t session) const = 0;
  virtual void Close(uint64_t session) = 0;
  // A round of the session is over that scored its drafter's draft, and accepted `tokens` of it.
  virtual void RecordAccepted(uint64_t session, int tokens) = 0;
  // Sends what Open, Decide and Close have gathered, as one message per drafter and step.
  virtual void Flush() = 0;

  // Sets how long to wait for the draft of the last plan, from the drafter's measured speed.
  // `worth`: the time that plain decoding takes for as many tokens; a longer wait cannot pay.
  // `step`: the time of a forward pass; zero: unknown. With a timeout of zero, the drafter gets the
  // plan only to be timed.
  virtual DraftTimeout SetTimeout(uint64_t session, Duration worth, Duration step) = 0;
  // The deadline of the last plan passed before its whole draft arrived.
  virtual void MarkLate(uint64_t session) = 0;
  // Closes the session at its drafter if that is late or suspended and another is likely to do
  // better. Returns true if it was closed and must be opened again.
  virtual bool ReassignSession(uint64_t session) = 0;
  // Timing of the session's drafter, or of the one that would take a session of `tokens` tokens.
  // nullopt: none would.
  virtual std::optional<DraftTiming> Timing(uint64_t session, int tokens) = 0;
  // The name of the session's drafter; "" without one.
  virtual std::string DrafterName(uint64_t session) const = 0;
};

class DraftConsumer {
 public:
  virtual ~DraftConsumer() = default;

  // The validated part of a plan's draft that has arrived, at least one token. `complete`: no more
  // will come. Before that it may be called again with a longer part.
  virtual void OnDraft(uint64_t session, uint32_t round, const DraftTree& draft, bool complete) = 0;
  // The session's drafter is gone.
  virtual void OnDrafterLost(uint64_t session) = 0;
  // The session's drafter was suspended, and rounds wait for it again.
  virtual void OnDrafterBack(uint64_t session) = 0;
  // The session's drafter is attached but does not take the session: it is full or out of step.
  virtual void OnRefused(uint64_t session) = 0;
};

}  // namespace outrider
