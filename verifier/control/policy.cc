#include "verifier/control/policy.h"

#include <cmath>

namespace outrider {

bool IsSeconds(double seconds) { return std::isfinite(seconds) && seconds > 0; }

ArmMask AllowedArms(const ArmSet& arms, const Context& context) {
  const ArmMask allowed = context.allowed & arms.all();
  return allowed != 0 ? allowed : ArmSet::Bit(arms.plain());
}

bool Teaches(const ArmSet& arms, const Choice& choice, const Outcome& outcome) {
  if (outcome.aborted || outcome.truncated) return false;
  if (choice.arm < 0 || choice.arm >= arms.size()) return false;
  const int length = arms.facts(choice.arm).length;
  const int drafted = outcome.drafted < 0 ? length : outcome.drafted;
  return drafted <= length && outcome.accepted >= 0 && outcome.accepted <= drafted &&
         outcome.emitted >= 1 && outcome.emitted <= outcome.accepted + 1;
}

}  // namespace outrider
