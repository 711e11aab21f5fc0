// The default policy. It compares arms by the tokens that a round is expected to emit over the
// seconds it is expected to take.
//
//   tokens(arm)  = sum over levels a of Pr(a) tokens(arm's length | a)              (acceptance.h)
//   seconds(arm) = the cost model's * measured / modelled, of sums over its family  (cost_model.h)
//
// Pr(a) belongs to a session and a family of arms (those that differ in length alone). It starts
// from what other sessions of this model pair and client key have seen, is updated by Bayes' rule,
// and leaks towards a wider distribution, because the text may change at any time.
//
// The fastest arm is taken unless another is worth trying: the speed that a few pulls of it are
// expected to gain, times the tokens that can still profit, exceeds what those pulls are expected
// to lose (the knowledge gradient over the best number of pulls: Frazier and Powell 2010, KG(*)). A
// ledger of time lost against plain decoding bounds the risk: an arm that is not surely faster is
// taken only if a bad round of it stays below a share of the tokens served and to come. tuning.h
// has the constants.
//
// Thread: one (the engine's). No randomness. Choose is O(arms), without allocation.
#pragma once

#include <vector>

#include "verifier/control/acceptance.h"
#include "verifier/control/cost_model.h"
#include "verifier/control/policy.h"

namespace outrider {

class Adaptive final : public Policy {
 public:
  // `shared`: later sessions profit from what a session learns.
  // REQUIRES: arms and costs outlive the policy.
  Adaptive(const ArmSet& arms, const CostModel& costs, bool shared);
  std::unique_ptr<PolicySession> Open() override;

  // Rounds dispatched and not yet observed.
  int64_t pending() const { return pending_; }
  // Time lost against plain decoding so far, less what drafting gained, in plain rounds. Old rounds
  // are discounted.
  double deficit() const { return deficit_; }
  // The belief about a family before a session has drafted with it.
  Belief Prior(int family) const;

 private:
  friend class AdaptiveSession;
  // Seconds of rounds, discounted with every round of any session.
  struct Times {
    double measured = 0;
    double modelled = 0;  // of the same rounds
    int64_t updated = 0;  // the policy's round that they are discounted up to
  };
  struct Family {
    DepthProfile profile;
    Belief pooled = IgnorantBelief();  // all sessions pooled
    Belief seen{};                     // mean of the sessions' beliefs, which shows how they differ
    double rounds = 0;                 // rounds that `seen` rests on, bounded
    Times times;
    double offered = 1;  // recent share of choices in which it was allowed
  };
  Family& family(int f) { return families_[static_cast<size_t>(f)]; }
  const Family& family(int f) const { return families_[static_cast<size_t>(f)]; }
  // The rate at which a session that opens now returns to AfterTurn's belief about the family,
  // before it is shared among families.
  double TurnRate(int family) const;
  // The belief about a family after a change point of the text.
  Belief AfterTurn(int family) const;
  Belief Blend(int family, double own, double pooled) const;
  // A session saw `accepted` of `drafted` tokens and now believes `belief`; it expected `mean`.
  void Learn(int family, const Belief& belief, int accepted, int drafted, double mean);
  void LearnSeconds(int arm, double measured, double modelled);
  // Ratio of the family's measured times to the cost model's. `unit`: the scale of its seconds.
  double FamilyCorrection(int family, double unit) const;
  // The same of one arm: its family's, until it was measured itself.
  double Correction(int arm, double of_family, double unit) const;
  void Add(double measured, double modelled, Times* times) const;
  // The ratio in `times`, as if some plain rounds had shown `prior`.
  double Ratio(const Times& times, double prior, double unit) const;
  // A round with a draft stalled for as long as `plain_rounds` rounds. Returns how many of them are
  // not charged to drafting.
  double Forgive(double plain_rounds);
  // Accounts for a round that took as long as `plain_rounds` rounds.
  void Account(double plain_rounds, int emitted);
  // Plain rounds that may be lost by the end of a request that can emit `remaining` tokens.
  double Budget(double remaining) const;
  // The part of the budget that such a request may risk, counting pending rounds as lost.
  double Allowance(double remaining) const;

  const ArmSet& arms_;
  const CostModel& costs_;
  const bool shared_;
  std::vector<Family> families_;
  std::vector<Times> arm_times_;
  Belief all_seen_{};  // sum over families of rounds * seen
  double all_rounds_ = 0;
  double deficit_ = 0;
  double served_ = 0;    // tokens, discounted like the deficit
  double forgiven_ = 0;  // plain rounds, discounted likewise
  int64_t rounds_ = 0;   // accounted for
  int64_t pending_ = 0;
  double pledged_ = 0;  // plain rounds that pending rounds may lose
};

}  // namespace outrider
