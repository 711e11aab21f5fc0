#include "verifier/control/exp3_spec.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "common/math/philox.h"

namespace outrider {

class Exp3SpecSession final : public PolicySession {
 public:
  explicit Exp3SpecSession(Exp3Spec& shared) : shared_(shared) {}
  Choice Choose(const Context& context) override { return shared_.Choose(context); }
  void Observe(const Choice& choice, const Outcome& outcome) override {
    shared_.Observe(choice, outcome);
  }

 private:
  Exp3Spec& shared_;
};

double Exp3SpecRate(int arms, double round) {
  return std::sqrt(std::log(static_cast<double>(arms)) / (round * arms));
}

Exp3Spec::Exp3Spec(const ArmSet& arms, uint64_t seed)
    : arms_(arms),
      seed_(seed),
      losses_(static_cast<size_t>(arms.size())),
      probabilities_(static_cast<size_t>(arms.size())) {}

std::unique_ptr<PolicySession> Exp3Spec::Open() { return std::make_unique<Exp3SpecSession>(*this); }

const std::vector<double>& Exp3Spec::Probabilities(const Context& context) {
  const ArmMask allowed = AllowedArms(arms_, context);
  const auto is_allowed = [&](size_t i) {
    return (allowed & ArmSet::Bit(static_cast<int>(i))) != 0;
  };
  const double rate =
      Exp3SpecRate(std::popcount(allowed), rounds_ + 1 + static_cast<double>(pending_));
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < losses_.size(); ++i) {
    if (is_allowed(i)) least = std::min(least, losses_[i]);
  }
  double sum = 0;
  for (size_t i = 0; i < losses_.size(); ++i) {
    probabilities_[i] = is_allowed(i) ? std::exp(-rate * (losses_[i] - least)) : 0;
    sum += probabilities_[i];
  }
  for (double& p : probabilities_) p /= sum;
  return probabilities_;
}

Choice Exp3Spec::Choose(const Context& context) {
  const std::vector<double>& p = Probabilities(context);
  const PhiloxBlock counter{{static_cast<uint32_t>(draws_), static_cast<uint32_t>(draws_ >> 32)}};
  ++draws_;
  double u = UnitInterval(
      Philox(counter, static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)));
  size_t chosen = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) continue;
    chosen = i;  // the last possible arm takes the rounding error
    u -= p[i];
    if (u < 0) break;
  }
  ++pending_;
  return {.arm = static_cast<int>(chosen), .probability = p[chosen]};
}

void Exp3Spec::Observe(const Choice& choice, const Outcome& outcome) {
  --pending_;
  if (Teaches(arms_, choice, outcome)) Learn(choice, outcome.emitted);
}

void Exp3Spec::Learn(const Choice& choice, int tokens) {
  rounds_ += 1;
  const double length = arms_.max_length();
  if (length == 0) return;  // every arm emits one token
  losses_[static_cast<size_t>(choice.arm)] += (length + 1 - tokens) / (length * choice.probability);
}

}  // namespace outrider
