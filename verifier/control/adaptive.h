// The default policy: what a plan is expected to emit over what it is expected to take.
//
//   tokens(arm)  = sum over levels a of Pr(a) tokens(arm's length | a)              (acceptance.h)
//   seconds(arm) = the cost model's * measured / modelled, of sums over its family  (cost_model.h)
//
// Pr(a) belongs to a session and a family of arms (those that differ in length alone). It starts
// from what other sessions of this model pair and client key have seen, follows Bayes' rule, and
// leaks towards a wider distribution, as the text may turn at any time.
//
// The fastest arm, tokens over seconds, is taken unless another is worth trying: the speed that a
// few pulls of it may be expected to gain, times the tokens that can still profit, against what
// those pulls are expected to lose (the knowledge gradient over the best number of pulls: Frazier
// and Powell 2010, KG(*)). A ledger of time lost against plain decoding bounds what may be risked:
// an arm that is not surely faster is taken only while a bad round of it stays below a share of the
// tokens served and to come. tuning.h has the constants.
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
  // `shared`: what a session learns is of use to later ones.
  // REQUIRES: arms and costs outlive the policy.
  Adaptive(const ArmSet& arms, const CostModel& costs, bool shared);
  std::unique_ptr<PolicySession> Open() override;

  // Dispatched and not observed.
  int64_t pending() const { return pending_; }
  // Time lost against plain decoding so far, less what drafting gained, in plain rounds; old rounds
  // fade.
  double deficit() const { return deficit_; }
  // What is believed of a family before a session has drafted with it.
  Belief Prior(int family) const;

 private:
  friend class AdaptiveSession;
  struct Family {
    DepthProfile profile;
    Belief pooled = IgnorantBelief();  // all sessions taken for one
    Belief seen{};                     // mean of sessions' beliefs: how they differ
    double rounds = 0;                 // behind `seen`, bounded
    double measured = 0;               // seconds of rounds, discounted by every chosen round
    double modelled = 0;               // of the same rounds
    int64_t timed = 0;                 // the round of the policy that they are discounted up to
  };
  Family& family(int f) { return families_[static_cast<size_t>(f)]; }
  const Family& family(int f) const { return families_[static_cast<size_t>(f)]; }
  // What is believed of a family once the text has turned.
  Belief AfterTurn(int family) const;
  Belief Blend(int family, double own, double pooled) const;
  // A session saw `accepted` of `drafted` and now believes `belief`; `mean` it expected.
  void Learn(int family, const Belief& belief, int accepted, int drafted, double mean);
  void LearnSeconds(int family, double measured, double modelled);
  // What measured times of this family are of the cost model's. `unit`: of its seconds.
  double Correction(int family, double unit) const;
  // By what measured and modelled seconds have faded since they were last touched.
  double Faded(const Family& family) const;
  // A round with a draft stalled for as long as so many plain ones take: how many of them are not
  // charged to drafting.
  double Forgive(double plain_rounds);
  // A round that took as long as so many plain ones.
  void Account(double plain_rounds, int emitted);
  // Plain rounds that may be lost by the end of a request that can emit so many tokens.
  double Budget(double remaining) const;
  // What is left of it, pending rounds taken for lost: may be risked by a request that can emit so
  // many tokens.
  double Allowance(double remaining) const;

  const ArmSet& arms_;
  const CostModel& costs_;
  const bool shared_;
  std::vector<Family> families_;
  Belief all_seen_{};  // sum over families of rounds * seen
  double all_rounds_ = 0;
  double deficit_ = 0;
  double served_ = 0;    // tokens, faded like the deficit
  double forgiven_ = 0;  // plain rounds, faded likewise
  int64_t rounds_ = 0;   // that were chosen
  int64_t pending_ = 0;
  double pledged_ = 0;  // plain rounds that pending ones may lose
};

}  // namespace outrider
