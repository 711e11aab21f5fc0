#include "verifier/control/fixed.h"

namespace outrider {
namespace {

class FixedSession final : public PolicySession {
 public:
  FixedSession(const ArmSet& arms, int arm) : arms_(arms), arm_(arm) {}
  Choice Choose(const Context& context) override {
    const bool allowed = (AllowedArms(arms_, context) & ArmSet::Bit(arm_)) != 0;
    return {.arm = allowed ? arm_ : arms_.plain()};
  }
  void Observe(const Choice& /*choice*/, const Outcome& /*outcome*/) override {}

 private:
  const ArmSet& arms_;
  int arm_;
};

}  // namespace

std::unique_ptr<PolicySession> FixedPolicy::Open() {
  return std::make_unique<FixedSession>(arms_, arm_);
}

}  // namespace outrider
