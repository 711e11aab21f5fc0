// The policy "fixed": one arm whenever it is allowed, plain decoding otherwise.
#pragma once

#include "verifier/control/policy.h"

namespace outrider {

class FixedPolicy final : public Policy {
 public:
  // REQUIRES: arms outlives the policy.
  FixedPolicy(const ArmSet& arms, int arm) : arms_(arms), arm_(arm) {}
  std::unique_ptr<PolicySession> Open() override;

 private:
  const ArmSet& arms_;
  int arm_;
};

}  // namespace outrider
