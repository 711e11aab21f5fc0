// What is believed of a proposer's acceptance: a distribution over levels a, the probability that a
// draft token is accepted given that those before it are.
//
// A round that drafts d depths, of which i are accepted, is i successes and, if i < d, one failure:
// it says of every shorter length what that would have given, and of longer ones what it came to
// see.
//
// Thread: none of its own; values.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace outrider {

// Levels sin^2 of equal angles, as a level's information is (Jeffreys): dense near 0 and 1.
inline constexpr size_t kLevels = 48;
// [kLevels] sums to 1.
using Belief = std::array<double, kLevels>;

const Belief& AcceptanceLevels();
// Before anything was seen: densities in proportion to the acceptance, Beta(2, 1), as drafters that
// nobody would deploy are rarer than others.
const Belief& IgnorantBelief();
// Sum over levels of a * b.
double Dot(const Belief& a, const Belief& b);
struct Moments {
  double mean = 0;
  double variance = 0;
};
// Of `values` at each level.
Moments MomentsOf(const Belief& values, const Belief& belief);
// belief = (1 - share) belief + share other.
void Mix(const Belief& other, double share, Belief* belief);

// The chances of depths at each level: logit(chance of depth j) = logit(level) + offset(j). Offsets
// are learned from all sessions, as later depths are often harder; they start at 0 (a truncated
// geometric distribution).
class DepthProfile {
 public:
  explicit DepthProfile(int max_length);

  // Sum over levels of Pr(level) times the tokens that a round of `length` depths emits, 1 and
  // more.
  double Tokens(const Belief& belief, int length) const;
  // The same at each level.
  const Belief& TokensAt(int length) const { return tokens_[static_cast<size_t>(length)]; }
  // Expected depths that a round of `length` gets to see.
  double Trials(const Belief& belief, int length) const;
  // Bayes' rule. The probability of the round under the belief before it.
  double Update(int accepted, int drafted, Belief* belief) const;
  // Counts a round for the offsets; `mean` the level expected before it.
  void Learn(int accepted, int drafted, double mean);

 private:
  struct Depth {
    double trials = 0;
    double accepted = 0;
    double expected = 0;  // accepted if there were no offsets
  };
  void Tabulate();

  std::vector<Depth> depths_;    // [max_length]
  std::vector<Belief> chances_;  // [max_length] of the depth, at each level
  std::vector<Belief> reaches_;  // [max_length + 1] that so many stand
  std::vector<Belief> tokens_;   // [max_length + 1] emitted by a round of this length
  int since_tabulated_ = 0;
};

// Expected level.
double MeanLevel(const Belief& belief);
// Draft tokens that would have to be seen to be as certain: those of the Beta distribution of this
// mean and variance.
double TrialsBehind(const Belief& belief);

}  // namespace outrider
