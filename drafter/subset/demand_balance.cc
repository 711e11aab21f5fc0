#include "drafter/subset/demand_balance.h"

#include <algorithm>

namespace outrider {
namespace {

// Spare drafters are evened out if they differ by more than this share of those attached to both
// verifiers, and more than one: a quarter of the mean. A smaller share evens out better and moves
// more streams (tests/drafter/subset/fleet_test.cc).
constexpr double kUnevenShare = 1. / 8;
// Where both verifiers lack drafters, one moves if the other verifier has this much less of what
// it wants.
constexpr double kUnevenLack = 1.5;
// The share of those in another zone that move at once: the rest see the result first.
constexpr double kToOwnZoneShare = 0.5;

struct Balance {
  double attached = 0;
  double wanted = 1;
  double spare() const { return attached - wanted; }
};

// How many spare drafters have to move to even them out; 0: they are even enough.
double SpareToMove(const Balance& from, const Balance& to) {
  const double uneven = std::max(1., kUnevenShare * (from.attached + to.attached));
  const double left = from.spare() - 1, joined = to.spare() + 1;
  if (left < 0 || left <= joined + uneven) return 0;
  return std::min(from.spare(), (from.spare() - to.spare()) / 2);
}

// How many drafters should move, of those of `from`; 0: none.
double DraftersToMove(const Balance& from, const Balance& to) {
  if (to.spare() >= 0) return SpareToMove(from, to);
  if (from.spare() >= 1)
    return std::max(std::min(from.spare(), -to.spare()), SpareToMove(from, to));
  const double left = from.attached - 1, joined = to.attached + 1;
  if (left * to.wanted <= kUnevenLack * joined * from.wanted) return 0;
  return (from.attached * to.wanted - to.attached * from.wanted) / (from.wanted + to.wanted);
}

// The same for drafters in the zone of `to`, which `from` is not in.
double DraftersToReturn(const Balance& from, const Balance& to) {
  const bool needed = from.attached - 1 < from.wanted;
  if (needed && from.attached * to.wanted <= to.attached * from.wanted) return 0;
  const double uneven = std::max(1., kUnevenShare * (from.attached + to.attached));
  if (to.spare() > from.spare() + uneven) return 0;
  return kToOwnZoneShare * from.attached;
}

}  // namespace

double MoveProbability(const DrafterDemand& from_demand, const DrafterDemand& to_demand,
                       MoveKind kind) {
  const Balance from{std::max(1., static_cast<double>(from_demand.attached)),
                     std::max(1., static_cast<double>(from_demand.wanted))};
  const Balance to{static_cast<double>(to_demand.attached),
                   std::max(1., static_cast<double>(to_demand.wanted))};
  double drafters = 0;
  switch (kind) {
    case MoveKind::kSameZone: drafters = DraftersToMove(from, to); break;
    case MoveKind::kToOwnZone: drafters = DraftersToReturn(from, to); break;
    case MoveKind::kFromOwnZone:
      if (from.spare() < 1 || 2 * to.attached >= to.wanted) break;
      drafters = std::min(from.spare(), -to.spare());
      break;
  }
  return std::clamp(drafters / from.attached, 0., 1.);
}

}  // namespace outrider
