// The drafters as the engine sees them: sessions are opened, decided round by round and closed;
// drafts come back through DraftConsumer. pool/ implements it over many drafters, tests by hand.
//
// Thread: the engine thread, both ways. A source never calls the consumer from within a call of the
// engine's.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/spec/draft_tree.h"
#include "common/spec/drafting.h"

namespace outrider {

// What a drafter has shown of its speed, in seconds; NaN: not known yet.
struct DraftTiming {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double network = kUnknown;     // of a round trip
  double depth = kUnknown;       // to draft one depth
  double last = kUnknown;        // to draft this session's last draft
  double early = 0;              // share of drafts that are here before their plans are made
  bool acceptance_head = false;  // that a stop rule may name
  bool trial = false;  // it is suspended: a plan would try it, without waiting for the draft
  std::string_view model = {};  // the drafter's; valid until the source's next call
};

// How long a round waits for its draft.
struct DraftTimeout {
  Duration usual{};    // zero: it does not wait for this drafter
  bool trial = false;  // it is suspended: no request waits longer than that
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // Whether a drafter has room for one more session of so many tokens, its first draft included.
  virtual bool HasRoom(int tokens) = 0;
  // REQUIRES: HasRoom for the session's tokens and its plan.
  virtual void Open(SessionOpening opening) = 0;
  virtual void Decide(SessionVerdict decision) = 0;
  // The whole draft for the plan of the last Decide, where the drafter had sent it early; nullptr:
  // it is still to come. Valid until the source's next call.
  virtual const DraftTree* EarlyDraft(uint64_t session) const = 0;
  virtual void Close(uint64_t session) = 0;
  // Sends what Open, Decide and Close have gathered: one message a drafter and step.
  virtual void Flush() = 0;

  // Sets how long to wait for the draft of the plan that was sent last, from what its drafter has
  // shown. `worth`: the time that plain decoding takes for as many tokens; a longer wait cannot
  // pay. Where the timeout is zero, the drafter gets the plan only to show its time.
  virtual DraftTimeout SetTimeout(uint64_t session, Duration worth) = 0;
  // The deadline of the last plan passed before its whole draft had come, whatever part of it did.
  virtual void MarkLate(uint64_t session) = 0;
  // Closes the session at its drafter if that is late or suspended and another one is likely to do
  // better. True: it was closed; open it again.
  virtual bool ReassignSession(uint64_t session) = 0;
  // Of the session's drafter; of the one that would take a session of so many tokens, if it has
  // none. nullopt: none would.
  virtual std::optional<DraftTiming> Timing(uint64_t session, int tokens) = 0;
  // The drafter's name, "" without one.
  virtual std::string DrafterName(uint64_t session) const = 0;
};

class DraftConsumer {
 public:
  virtual ~DraftConsumer() = default;

  // The draft of a plan as far as it has come, already validated; at least one token. `complete`:
  // nothing more will come. Before that it may come again, longer.
  virtual void OnDraft(uint64_t session, uint32_t round, const DraftTree& draft, bool complete) = 0;
  // The session's drafter is gone.
  virtual void OnDrafterLost(uint64_t session) = 0;
  // The session's drafter was suspended and is waited for again.
  virtual void OnDrafterBack(uint64_t session) = 0;
  // The session's drafter is there but does not take it (full, or it lost the thread).
  virtual void OnRefused(uint64_t session) = 0;
};

}  // namespace outrider
