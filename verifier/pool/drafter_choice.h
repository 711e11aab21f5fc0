// The connected drafters, and the choice of one for a new session: of those that are likely to
// draft soonest, the one with the fewest sessions.
//
// Thread: the engine thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/spec/drafter_demand.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "verifier/pool/assignments.h"
#include "verifier/pool/drafter_link.h"
#include "verifier/pool/estimate.h"
#include "verifier/pool/punctuality.h"
#include "verifier/pool/recent_median.h"

namespace outrider {

// Recent share of drafts that a drafter sent before it got their plans, of those for plans that
// repeat the last one.
struct EarlyShare {
  static constexpr double kGain = 1.0 / 32;
  double value = 0;
  void Add(double was_early) { value += kGain * (was_early - value); }
};

// A drafter that was welcomed, and its measured speed. Assignments has its sessions.
struct ConnectedDrafter {
  DrafterHello hello;
  int protocol = kDraftingProtocol;      // agreed on
  std::optional<VocabularyMatch> match;  // nullopt: it has our vocabulary
  std::shared_ptr<DrafterLink> link;
  Time joined;
  Time last_message;
  DrafterLoad load;                                   // as last reported
  int others = 0;                                     // sessions of other verifiers in that
  DrafterDemand told = {.wanted = 0, .attached = 0};  // the last demand sent
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  // Times of its whole drafts. While they are late it is suspended, and only gets a trial session
  // now and then.
  Punctuality punctuality;
  // Parts that may still arrive for plans that were closed or went on without their draft.
  uint64_t crossing_parts = 0;
  uint64_t crossing_early = 0;  // the same of early drafts
  Estimate drafting;            // the drafter's own part of punctuality's round trip
  Estimate depth;               // the same per depth
  RecentMedian network;         // the rest of the round trip
  EarlyShare early;
  // The network's part of a round trip, if known: the median at first, then the smoothed mean,
  // which a stall among the first measurements would move for long.
  std::optional<double> NetworkSeconds() const;
  // While it holds no session: the first and the last time that one asked, if it never had room.
  struct Full {
    Time since, last;
  };
  std::optional<Full> full;
};

using ConnectedDrafters = std::map<uint64_t, ConnectedDrafter>;  // by connection id

// Whether the drafter, which holds `sessions` of ours, has room for one more of `tokens` tokens.
bool HasRoom(const ConnectedDrafter& drafter, int sessions, int tokens);

// The expected time of a draft of four depths for one more session, at a drafter that holds
// `sessions` of ours: the network's part plus the drafter's, as measured lately. A drafter that was
// not measured yet comes first for its first session, and last for more.
double ExpectedSeconds(const ConnectedDrafter& drafter, int sessions);

// Of the drafters that are likely to draft soonest, the one with the fewest sessions, among those
// with room for a session of `tokens` tokens. With `try_silent`, a suspended one that is due for a
// trial comes first. nullopt: none.
std::optional<uint64_t> ChooseDrafter(const ConnectedDrafters& drafters,
                                      const Assignments& assignments, int tokens, bool try_silent,
                                      Time now);

}  // namespace outrider
