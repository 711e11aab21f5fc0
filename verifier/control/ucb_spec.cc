#include "verifier/control/ucb_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace outrider {

class UcbSpecSession final : public PolicySession {
 public:
  explicit UcbSpecSession(UcbSpec& shared) : shared_(shared) {}
  Choice Choose(const Context& context) override { return shared_.Choose(context); }
  void Observe(const Choice& choice, const Outcome& outcome) override {
    shared_.Observe(choice, outcome);
  }

 private:
  UcbSpec& shared_;
};

double UcbSpecRadius(int max_length, int arms, double rounds, double pulls, double delta) {
  const double log_term = std::log(arms * rounds * rounds * std::sqrt(1 + pulls) / delta);
  return max_length / 2.0 * std::sqrt((1 + pulls) / (pulls * pulls) * (1 + 2 * log_term));
}

UcbSpec::UcbSpec(const ArmSet& arms, double scale)
    : arms_(arms), scale_(scale), stats_(static_cast<size_t>(arms.size())) {}

std::unique_ptr<PolicySession> UcbSpec::Open() { return std::make_unique<UcbSpecSession>(*this); }

Choice UcbSpec::Choose(const Context& context) {
  const ArmMask allowed = AllowedArms(arms_, context);
  const int count = std::popcount(allowed);
  // t = 0 only if no arm has a pull.
  const double rounds = std::max(1.0, rounds_ + static_cast<double>(all_pending_));
  int best = -1;
  double best_index = 0;
  for (int i = 0; i < arms_.size(); ++i) {
    if ((allowed & ArmSet::Bit(i)) == 0) continue;
    const Stats& s = stats_[static_cast<size_t>(i)];
    const double pulls = s.pulls + s.pending;
    if (pulls == 0) {
      best = i;
      break;
    }
    // An arm whose first pull is pending is rated as the best possible.
    const double mean = s.pulls > 0 ? s.tokens / s.pulls : arms_.facts(i).length + 1.0;
    const double index =
        mean + scale_ * UcbSpecRadius(arms_.max_length(), count, rounds, pulls, kUcbSpecDelta);
    if (best < 0 || index > best_index) {
      best = i;
      best_index = index;
    }
  }
  stats_[static_cast<size_t>(best)].pending += 1;
  ++all_pending_;
  return {.arm = best};
}

void UcbSpec::Observe(const Choice& choice, const Outcome& outcome) {
  Stats& s = stats_[static_cast<size_t>(choice.arm)];
  s.pending -= 1;
  --all_pending_;
  if (!Teaches(arms_, choice, outcome)) return;
  s.pulls += 1;
  s.tokens += outcome.emitted;
  rounds_ += 1;
}

}  // namespace outrider
