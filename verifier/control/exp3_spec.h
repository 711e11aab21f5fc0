// EXP3Spec (Hou et al., BanditSpec, Algorithms 5 and 9): anytime EXP3 over the losses (L + 1 - Y) /
// L of a round that appends Y tokens, without mixing in the uniform distribution and without
// clipping.
#pragma once

#include <vector>

#include "verifier/control/policy.h"

namespace outrider {

// sqrt(ln K / (t K)); `round` t from 1.
double Exp3SpecRate(int arms, double round);

class Exp3Spec final : public Policy {
 public:
  // REQUIRES: arms outlives the policy.
  Exp3Spec(const ArmSet& arms, uint64_t seed);
  std::unique_ptr<PolicySession> Open() override;

  // [arms] the distribution of the next arm: exp(-eta_t Z_i), normalised over the allowed arms.
  const std::vector<double>& Probabilities(const Context& context);
  // Learns from a round whose arm was drawn with choice.probability.
  void Learn(const Choice& choice, int tokens);

  int64_t pending() const { return pending_; }

 private:
  friend class Exp3SpecSession;
  Choice Choose(const Context& context);
  void Observe(const Choice& choice, const Outcome& outcome);

  const ArmSet& arms_;
  uint64_t seed_;
  uint64_t draws_ = 0;
  std::vector<double> losses_;         // [arms] Z_i
  std::vector<double> probabilities_;  // [arms]
  double rounds_ = 0;                  // completed
  int64_t pending_ = 0;
};

}  // namespace outrider
