// UCBSpec (Hou et al., BanditSpec, Algorithms 4 and 8): takes each arm once in order, then the
// greatest mean of tokens a round plus a radius. Rewards are tokens, so an arm's cost does not
// count.
#pragma once

#include <vector>

#include "verifier/control/policy.h"

namespace outrider {

inline constexpr double kUcbSpecDelta = 0.5;  // the value in the proof of Theorem 4.3

// (L / 2) sqrt((1 + n) / n^2 (1 + 2 ln(K t^2 sqrt(1 + n) / delta))), tokens. `max_length` L of the
// longest accepted path, `arms` K, `rounds` t completed, `pulls` n of this arm, >= 1.
double UcbSpecRadius(int max_length, int arms, double rounds, double pulls, double delta);

class UcbSpec final : public Policy {
 public:
  // scale = 1: as published. Less is "ucb-tuned": within one response the published radius exceeds
  // the whole range of rewards.
  // REQUIRES: arms outlives the policy.
  explicit UcbSpec(const ArmSet& arms, double scale = 1);
  std::unique_ptr<PolicySession> Open() override;

  // Rounds dispatched and not yet observed. They count as pulls with the arm's present mean, so
  // that sessions do not crowd on one arm during the delay.
  int64_t pending() const { return all_pending_; }

 private:
  friend class UcbSpecSession;
  struct Stats {
    double pulls = 0;
    double tokens = 0;
    double pending = 0;
  };
  Choice Choose(const Context& context);
  void Observe(const Choice& choice, const Outcome& outcome);

  const ArmSet& arms_;
  double scale_;
  std::vector<Stats> stats_;  // [arms]
  double rounds_ = 0;         // completed
  int64_t all_pending_ = 0;
};

}  // namespace outrider
