// The drafters that are connected, and which of them takes one more session: the one that is likely
// to draft soonest.
//
// Thread: the engine thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/spec/drafter_hello.h"
#include "common/spec/drafting.h"
#include "verifier/pool/assignments.h"
#include "verifier/pool/drafter_link.h"
#include "verifier/pool/estimate.h"
#include "verifier/pool/punctuality.h"
#include "verifier/pool/recent_median.h"

namespace outrider {

// The share of a drafter's drafts that it had sent before it got their plans, lately.
struct EarlyShare {
  static constexpr double kGain = 1.0 / 32;
  double value = 0;
  void Add(double was_early) { value += kGain * (was_early - value); }
};

// A drafter that was welcomed, and what it has shown of its speed. Its sessions: Assignments.
struct ConnectedDrafter {
  DrafterHello hello;
  std::optional<VocabularyMatch> match;  // no value: its vocabulary is ours
  std::shared_ptr<DrafterLink> link;
  Time joined;
  Time last_message;
  DrafterLoad load;  // as it said last
  uint64_t drafted_tokens = 0;
  uint64_t accepted_tokens = 0;
  // Times of its whole drafts. While they are late it is suspended: it gets no sessions but, now
  // and then, one to try it.
  Punctuality punctuality;
  // Parts that may still come for plans that were closed or went on without their draft.
  uint64_t crossing_parts = 0;
  uint64_t crossing_early = 0;  // the same of early drafts
  Estimate drafting;            // of punctuality's round trip, the drafter's own part
  Estimate depth;               // of that, for one depth
  RecentMedian network;         // of a round trip, the rest
  EarlyShare early;
  // The network's part of a round trip, as far as it is known: the smoothed mean, which a stall
  // among the first measurements moves for long, once there are enough of them.
  std::optional<double> NetworkSeconds() const;
  std::vector<SessionVerdict> decisions;  // of this step, sent as one message
};

using ConnectedDrafters = std::map<uint64_t, ConnectedDrafter>;  // by their connections' ids

// When the first draft of one more session may be expected of a drafter that holds `sessions` of
// ours: the network's part as it is, the drafter's as it grows with the sessions that share its
// passes. A drafter that was not measured yet comes first with its first session, and last with
// more.
double ExpectedSeconds(const ConnectedDrafter& drafter, int sessions);

// The drafter that is likely to draft soonest, of those that have room for one more session of so
// many tokens; with `try_silent` before all a suspended one that is due to be tried. nullopt: none.
std::optional<uint64_t> ChooseDrafter(const ConnectedDrafters& drafters,
                                      const Assignments& assignments, int tokens, bool try_silent,
                                      Time now);

}  // namespace outrider
