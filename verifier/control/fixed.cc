#include "verifier/control/fixed.h"

#include <algorithm>

namespace outrider {
namespace {

class FixedSession final : public PolicySession {
 public:
  FixedSession(const ArmSet& arms, const std::vector<int>& wanted) : arms_(arms), wanted_(wanted) {}
  Choice Choose(const Context& context) override {
    const ArmMask allowed = AllowedArms(arms_, context);
    const auto first = std::find_if(wanted_.begin(), wanted_.end(),
                                    [&](int arm) { return (allowed & ArmSet::Bit(arm)) != 0; });
    return {.arm = first == wanted_.end() ? arms_.plain() : *first};
  }
  void Observe(const Choice& /*choice*/, const Outcome& /*outcome*/) override {}

 private:
  const ArmSet& arms_;
  const std::vector<int>& wanted_;
};

}  // namespace

std::unique_ptr<PolicySession> FixedPolicy::Open() {
  return std::make_unique<FixedSession>(arms_, wanted_);
}

}  // namespace outrider
