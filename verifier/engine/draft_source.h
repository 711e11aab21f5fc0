// The drafters as the engine sees them: sessions are opened, decided round by round and closed;
// drafts come back through DraftConsumer. pool/ implements it over many drafters, tests by hand.
//
// Thread: the engine thread, both ways. A source never calls the consumer from within a call of the
// engine's.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/types.h"
#include "common/spec/draft.h"
#include "common/spec/draft_tree.h"
#include "common/spec/sampling_params.h"
#include "common/spec/stop_rule.h"
#include "common/trace/trace_context.h"

namespace outrider {

// A plan with the round that it is for. Rounds rise; the drafter's answer names the round. A
// drafter may draft less deep than the shape's length.
struct RoundPlan {
  uint32_t round = 0;
  DraftShape shape;
  StopRule stop = {};
};

struct SessionStart {
  uint64_t session = 0;
  std::span<const TokenId> tokens;  // prompt and output so far
  int prompt_tokens = 0;
  const SamplingParams* sampling = nullptr;
  uint64_t seed = 0;
  DraftKind kind = DraftKind::kSampled;
  RoundPlan plan;
  const TraceContext* trace = nullptr;  // what the drafter's span goes on from; nullptr: no trace
};

struct RoundDecision {
  uint64_t session = 0;
  uint32_t round = 0;             // of the last plan sent
  int node = 0;                   // of its draft: the path to it stands
  int accepted = 0;               // its depth
  std::span<const TokenId> next;  // what follows them
  RoundPlan plan;
  // [<= nodes] of that draft, from node 1 on: min(1, p / q), times 255. For kHead.
  std::string acceptance = {};
};

// What a drafter has shown of its speed, in seconds; NaN: not known yet.
struct DraftTiming {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  double network = kUnknown;     // of a round trip
  double depth = kUnknown;       // to draft one depth
  double last = kUnknown;        // to draft this session's last draft
  bool acceptance_head = false;  // that a stop rule may name
  bool trial = false;  // it is suspended: a plan would try it, without waiting for the draft
  std::string_view model = {};  // the drafter's; valid until the source's next call
};

// How long to wait for a draft.
struct Patience {
  Duration usual{};    // zero: do not wait for this drafter
  bool trial = false;  // it is suspended: no request waits longer than that
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // False: no drafter has room.
  virtual bool Open(const SessionStart& start) = 0;
  virtual void Decide(const RoundDecision& decision) = 0;
  virtual void Close(uint64_t session) = 0;
  // Sends what Open, Decide and Close have gathered: one message a drafter and step.
  virtual void Flush() = 0;

  // How long to wait for the draft of the plan that was sent last, from what its drafter has shown.
  // `worth`: the time that plain decoding takes for as many tokens; a longer wait cannot pay. Where
  // is zero, the drafter gets the plan only to show its time.
  virtual Patience PatienceWith(uint64_t session, Duration worth) = 0;
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
