// One generation's part of the policy adaptive.h.
#pragma once

#include <vector>

#include "verifier/control/adaptive.h"

namespace outrider {

class AdaptiveSession final : public PolicySession {
 public:
  explicit AdaptiveSession(Adaptive& shared);
  Choice Choose(const Context& context) override;
  void Observe(const Choice& choice, const Outcome& outcome) override;
  void ObserveRepeated() override;

 private:
  struct Family {
    double turn = 0;       // probability per round that the text changes for it
    bool touched = false;  // used in this session; until then it has the shared prior
    Belief belief;
    bool allowed = false;   // the round allows one of its arms
    double trials = 0;      // draft tokens that the belief rests on
    double correction = 1;  // Adaptive::FamilyCorrection in this round
    // Speed in tokens per second of the family's best arm, relative to the fastest arm.
    double mean = 0;
    double deviation = 0;
  };
  struct Candidate {
    int arm = 0;
    ArmSet::Facts facts;    // with the length that its proposer can draft now
    double modelled = 0;    // seconds by the cost model
    double expected = 0;    // corrected by measured times
    double catch_up = 0;    // seconds that the drafter catches up first
    double begins = 0;      // these, and those without an early draft, as the plan is another
    double seconds = 0;     // of a round if the plan is repeated, plus a share of `begins`
    Moments tokens;         // of an endless request
    double tokens_now = 0;  // those that this one can still emit
    double mean = 0;        // of its speed less the fastest arm's, with its deviation by beliefs
    double deviation = 0;
    double speed() const { return tokens.mean / seconds; }
  };

  Family& family(int arm) { return families_[static_cast<size_t>(FactsOf(arm).family)]; }
  const DepthProfile& profile(int arm) const { return shared_.family(FactsOf(arm).family).profile; }
  const ArmSet::Facts& FactsOf(int arm) const { return shared_.arms_.facts(arm); }
  // Fills candidates_ and returns the index of the fastest. `unit`: seconds of a plain round by the
  // cost model.
  size_t Estimate(const Context& context, ArmMask allowed, double unit);
  // An arm's facts with the length that its proposer can draft now.
  ArmSet::Facts FactsNow(int arm, const Context& context) const;
  double CatchUp(int arm, const Context& context) const;
  void Compare(const Candidate& fastest);
  // The tokens that trying an arm is worth over taking the fastest, at the best number of pulls.
  // May return 0 for any value below `least`.
  double WorthOfTrying(const Candidate& c, double speed, double horizon, double least);
  // The speed in tokens per second near the end of a request, where an arm's tokens count only up
  // to `remaining`.
  double EndSpeed(const Candidate& fastest, int remaining) const;
  // Tokens of a round under a pessimistic belief.
  double FewTokens(const Candidate& c);
  bool SurelyFaster(const Candidate& c, double plain_seconds);
  // The seconds that a round with a draft took, including the rest of its step's sessions.
  double SecondsTaken(const Choice& choice, const Outcome& outcome) const;

  // Moves the beliefs as `rounds` rounds do, in each of which the text may change.
  void Turn(int rounds);

  Adaptive& shared_;
  const double eagerness_;
  std::vector<Family> families_;
  std::vector<Candidate> candidates_;
  int last_arm_ = -1;
  int repeated_ = 0;        // plain rounds since the last choice
  std::vector<int> after_;  // [proposers] tokens of chosen rounds since it last drafted
};

}  // namespace outrider
