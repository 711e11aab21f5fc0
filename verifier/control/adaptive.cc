#include "verifier/control/adaptive.h"

#include <algorithm>

#include "verifier/control/adaptive_session.h"

namespace outrider {
namespace {

// Rounds that count for half of what is believed of a family.
constexpr double kPriorRounds = 8;
// How much of what is not known of a family is taken from the others.
constexpr double kFromOthers = 0.15;
// Sessions of one client are mostly alike: the pooled law's share, the rest is the law of sessions.
constexpr double kPooled = 0.8;
// A turned text is mostly one that has been seen.
constexpr double kTurnOwn = 0.8;
constexpr double kPoolLeak = 1.0 / 2000;  // of a round: that all sessions change
constexpr double kMemoryRounds = 1000;
constexpr double kTimeDiscount = 0.98;
constexpr double kTimePrior = 4;  // plain rounds as modelled
constexpr double kLedgerDiscount = 1 - 1.0 / 4096;
constexpr double kMostCredit = 64;   // plain rounds: a good hour does not pay for a bad one
constexpr double kMostLoss = 0.028;  // 3 % and a margin for what the cost model gets wrong
// Where nothing has paid for a request's length and more, looking further is to cost little.
constexpr double kSteadyLoss = 0.01;
constexpr double kLearning = 512;  // tokens
constexpr double kAdvance = 256;   // tokens that a request is trusted to come to

}  // namespace

Adaptive::Adaptive(const ArmSet& arms, const CostModel& costs, bool shared)
    : arms_(arms),
      costs_(costs),
      shared_(shared),
      families_(static_cast<size_t>(arms.families()),
                {.profile = DepthProfile(arms.max_length())}) {}

std::unique_ptr<PolicySession> Adaptive::Open() { return std::make_unique<AdaptiveSession>(*this); }

Belief Adaptive::Blend(int index, double own, double pooled) const {
  const Family& f = family(index);
  const double others = std::max(0.0, all_rounds_ - f.rounds);
  const double from_others = kFromOthers * others / (others + kPriorRounds);
  own *= f.rounds / (f.rounds + kPriorRounds);
  // What each law counts for; those of others are the sum over all less this one's.
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

Belief Adaptive::Prior(int family) const { return Blend(family, 1, kPooled); }

Belief Adaptive::AfterTurn(int family) const { return Blend(family, kTurnOwn, 0); }

void Adaptive::Learn(int index, const Belief& belief, int accepted, int drafted, double mean) {
  Family& f = family(index);
  Mix(AfterTurn(index), kPoolLeak, &f.pooled);
  f.profile.Update(accepted, drafted, &f.pooled);
  f.profile.Learn(accepted, drafted, mean);
  const double before = f.rounds;
  f.rounds = std::min(before + 1, kMemoryRounds);
  all_rounds_ += f.rounds - before;
  for (size_t k = 0; k < kLevels; ++k) {
    const double seen = f.seen[k] + (belief[k] - f.seen[k]) / f.rounds;
    all_seen_[k] = std::max(0.0, all_seen_[k] + f.rounds * seen - before * f.seen[k]);
    f.seen[k] = seen;
  }
}

void Adaptive::LearnSeconds(int index, double measured, double modelled) {
  Family& f = family(index);
  // One stall is not what the family takes.
  f.measured = kTimeDiscount * f.measured + std::clamp(measured, modelled / 4, 4 * modelled);
  f.modelled = kTimeDiscount * f.modelled + modelled;
}

double Adaptive::Correction(int index, double unit) const {
  const Family& f = family(index);
  return (f.measured + kTimePrior * unit) / (f.modelled + kTimePrior * unit);
}

void Adaptive::Account(double plain_rounds, int emitted) {
  deficit_ = std::max(-kMostCredit, kLedgerDiscount * deficit_ + plain_rounds - emitted);
  served_ = kLedgerDiscount * served_ + emitted;
}

double Adaptive::Budget(double remaining) const {
  return kMostLoss * (std::min(served_, kLearning) + std::min(remaining, kAdvance)) +
         kSteadyLoss * std::max(0.0, served_ - kLearning);
}

double Adaptive::Allowance(double remaining) const {
  return Budget(remaining) - deficit_ - pledged_;
}

}  // namespace outrider
