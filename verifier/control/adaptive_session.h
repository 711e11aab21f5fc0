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

 private:
  struct Family {
    bool touched = false;  // drafted with in this session; until then it has the shared prior
    Belief belief;
    bool allowed = false;   // an arm of it is, in this round
    double trials = 0;      // draft tokens that the belief comes from
    double correction = 1;  // of the cost model's seconds, in this round
    // Of the family's arm with the best chances, against the fastest arm: tokens per second.
    double mean = 0;
    double deviation = 0;
  };
  struct Candidate {
    int arm = 0;
    double modelled = 0;    // seconds by the cost model
    double expected = 0;    // corrected by what rounds took
    double seconds = 0;     // expected, with a share of what the drafter has to catch up
    double catch_up = 0;    // seconds, once
    Moments tokens;         // of an endless request
    double tokens_now = 0;  // that this one can still emit
    double mean = 0;        // speed less the fastest arm's, and its deviation by beliefs
    double deviation = 0;
    double speed() const { return tokens.mean / seconds; }
  };

  Family& family(int arm) { return families_[static_cast<size_t>(FactsOf(arm).family)]; }
  const DepthProfile& profile(int arm) const { return shared_.family(FactsOf(arm).family).profile; }
  const ArmSet::Facts& FactsOf(int arm) const { return shared_.arms_.facts(arm); }
  // Fills candidates_; the fastest one's index. `unit`: seconds of a plain round by the cost model.
  size_t Estimate(const Context& context, ArmMask allowed, double unit);
  double CatchUp(int arm, const Context& context) const;
  void Compare(const Candidate& fastest);
  // Tokens that trying an arm is worth, above its own, over the pulls that pay best. 0 may stand
  // for all that is below `least`.
  double WorthOfTrying(const Candidate& c, double speed, double horizon, double least);
  // Tokens a second that are to be had from the last tokens: what an arm gives counts up to there.
  double EndSpeed(const Candidate& fastest, int remaining) const;
  // Tokens of a round if its proposer is worse than it seems.
  double FewTokens(const Candidate& c);
  bool SurelyFaster(const Candidate& c, double plain_seconds);
  // What a round that drafted took, in seconds, the rest of its step's sessions included.
  double SecondsTaken(const Choice& choice, const Outcome& outcome) const;

  Adaptive& shared_;
  const double turn_;  // of a round, for each family
  std::vector<Family> families_;
  std::vector<Candidate> candidates_;
  std::vector<int> behind_;  // [proposers] tokens emitted since it drafted last
};

}  // namespace outrider
