// How many drafters a verifier needs for its present load.
//
// Thread: the engine thread.
#pragma once

#include "common/base/clock.h"
#include "common/spec/drafter_demand.h"
#include "verifier/pool/assignments.h"
#include "verifier/pool/drafter_choice.h"

namespace outrider {

// The sessions for which one drafter is wanted. A drafter that serves eight verifiers then drafts
// for 64 sessions. Fewer would draft faster for each and cost more drafters; how many are best
// depends on the pair (`outrider plan`), but verifiers of one fleet only compare their demands.
inline constexpr int kSessionsPerDrafter = 8;

// How often a verifier tells its drafters.
inline constexpr Duration kDemandPeriod = std::chrono::seconds(1);

struct RequestLoad {
  int running = 0;
  int waiting = 0;
};

// What to tell the drafters. Sessions that a drafter holds count, whether it is suspended or not.
// So do the others if no drafter has room for one more (or else they do without by choice), and as
// many waiting requests as are running. Suspended drafters, and those about to leave, which take no
// more sessions than they have, do not count as attached. `most`: the most drafters that may
// attach.
DrafterDemand DemandOf(const ConnectedDrafters& drafters, const Assignments& assignments,
                       const RequestLoad& load, int most, Time now);

}  // namespace outrider
