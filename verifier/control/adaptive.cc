#include "verifier/control/adaptive.h"

#include <algorithm>
#include <cmath>

#include "verifier/control/adaptive_session.h"
#include "verifier/control/tuning.h"

namespace outrider {
namespace {

// The weight of what so many rounds have shown against the prior.
double WeightOf(double rounds) { return rounds / (rounds + kTuning.prior_rounds); }

}  // namespace

Adaptive::Adaptive(const ArmSet& arms, const CostModel& costs, bool shared)
    : arms_(arms),
      costs_(costs),
      shared_(shared),
      families_(static_cast<size_t>(arms.families()), {.profile = DepthProfile(arms.max_length())}),
      arm_times_(static_cast<size_t>(arms.size())) {}

std::unique_ptr<PolicySession> Adaptive::Open() { return std::make_unique<AdaptiveSession>(*this); }

double Adaptive::TurnRate(int index) const {
  if (!shared_) return kTuning.turn;
  return kTuning.turn * (1 + WeightOf(family(index).rounds) * (kTuning.most_turns - 1));
}

Belief Adaptive::Blend(int index, double own, double pooled) const {
  const Family& f = family(index);
  const double others = std::max(0.0, all_rounds_ - f.rounds);
  const double from_others = kTuning.from_others * WeightOf(others);
  own *= WeightOf(f.rounds);
  // Weights of the distributions. The other families' is the sum over all less this one's.
  const double ignorant_share = (1 - own) * (1 - from_others);
  const double all_share = others > 0 ? (1 - own) * from_others / others : 0;
  const double seen_share = own * (1 - pooled) - all_share * f.rounds;
  const double pooled_share = own * pooled;
  const Belief& ignorant = IgnorantBelief();
  Belief blend;
  for (size_t k = 0; k < kLevels; ++k) {
    blend[k] = ignorant_share * ignorant[k] + all_share * all_seen_[k] + seen_share * f.seen[k] +
               pooled_share * f.pooled[k];
  }
  return blend;
}

Belief Adaptive::Prior(int family) const { return Blend(family, 1, kTuning.pooled); }

Belief Adaptive::AfterTurn(int family) const { return Blend(family, kTuning.turn_own, 0); }

void Adaptive::Learn(int index, const Belief& belief, int accepted, int drafted, double mean) {
  Family& f = family(index);
  Mix(AfterTurn(index), kTuning.pool_leak, &f.pooled);
  f.profile.Update(accepted, drafted, &f.pooled);
  f.profile.Learn(accepted, drafted, mean);
  const double before = f.rounds;
  f.rounds = std::min(before + 1, kTuning.memory_rounds);
  all_rounds_ += f.rounds - before;
  for (size_t k = 0; k < kLevels; ++k) {
    const double seen = f.seen[k] + (belief[k] - f.seen[k]) / f.rounds;
    all_seen_[k] = std::max(0.0, all_seen_[k] + f.rounds * seen - before * f.seen[k]);
    f.seen[k] = seen;
  }
}

void Adaptive::LearnSeconds(int arm, double measured, double modelled) {
  Add(measured, modelled, &family(arms_.facts(arm).family).times);
  Add(measured, modelled, &arm_times_[static_cast<size_t>(arm)]);
}

void Adaptive::Add(double measured, double modelled, Times* times) const {
  const double faded =
      std::pow(kTuning.time_discount, static_cast<double>(rounds_ - times->updated));
  // A single stall must not count as the usual time.
  times->measured = faded * times->measured + std::clamp(measured, modelled / 4, 4 * modelled);
  times->modelled = faded * times->modelled + modelled;
  times->updated = rounds_;
}

double Adaptive::FamilyCorrection(int index, double unit) const {
  return Ratio(family(index).times, 1, unit);
}

double Adaptive::Correction(int arm, double of_family, double unit) const {
  return Ratio(arm_times_[static_cast<size_t>(arm)], of_family, unit);
}

double Adaptive::Ratio(const Times& times, double prior, double unit) const {
  const double faded =
      std::pow(kTuning.time_discount, static_cast<double>(rounds_ - times.updated));
  return (faded * times.measured + kTuning.time_prior * unit * prior) /
         (faded * times.modelled + kTuning.time_prior * unit);
}

double Adaptive::Forgive(double plain_rounds) {
  const double forgiven = std::clamp(kTuning.most_forgiven - forgiven_, 0.0, plain_rounds);
  forgiven_ += forgiven;
  return forgiven;
}

void Adaptive::Account(double plain_rounds, int emitted) {
  ++rounds_;
  deficit_ = kTuning.ledger_discount * deficit_ + plain_rounds - emitted;
  served_ = kTuning.ledger_discount * served_ + emitted;
  forgiven_ *= kTuning.ledger_discount;
}

double Adaptive::Budget(double remaining) const {
  return kTuning.most_loss * (served_ + std::min(remaining, kTuning.advance));
}

double Adaptive::Allowance(double remaining) const {
  return Budget(remaining) - deficit_ - pledged_;
}

}  // namespace outrider
