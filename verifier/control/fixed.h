// The policy "fixed": the first of some arms that is allowed, or else plain decoding.
#pragma once

#include <utility>
#include <vector>

#include "verifier/control/policy.h"

namespace outrider {

class FixedPolicy final : public Policy {
 public:
  // REQUIRES: arms outlives the policy, the policy its sessions.
  FixedPolicy(const ArmSet& arms, std::vector<int> wanted)
      : arms_(arms), wanted_(std::move(wanted)) {}
  std::unique_ptr<PolicySession> Open() override;

 private:
  const ArmSet& arms_;
  const std::vector<int> wanted_;
};

}  // namespace outrider
