// When a drafter should move from one verifier to another, by what both say that they want.
#pragma once

#include "common/spec/drafter_demand.h"

namespace outrider {

enum class MoveKind {
  kSameZone,     // or zones are unknown
  kToOwnZone,    // from another zone to the drafter's
  kFromOwnZone,  // the reverse
};

// The probability, in [0, 1], with which one of the drafters of `from` should move to `to`, if all
// that see the same decide alike; 0: none should.
//
// Drafters that a verifier's load does not need are spare. A verifier that lacks drafters gets
// another one's spare ones, or a part of what that has if it lacks fewer. Spare ones are spread
// evenly. Small differences move nobody, so that streams stay where they are. To its own zone a
// drafter moves unless it is needed more where it is; from its own zone only to a verifier with
// less than half of what it wants.
double MoveProbability(const DrafterDemand& from, const DrafterDemand& to, MoveKind kind);

}  // namespace outrider
