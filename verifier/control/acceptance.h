// Belief about a proposer's acceptance: a distribution over levels a, the probability that a draft
// token is accepted given that those before it are.
//
// A round that drafts d depths and has i accepted counts as i successes and, if i < d, one failure.
// It tells what every shorter length would have given, and for longer ones a lower bound.
//
// Thread: none of its own; values.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace outrider {

// Levels are sin^2 of equally spaced angles, which spaces them by Fisher information (Jeffreys):
// dense near 0 and 1.
inline constexpr size_t kLevels = 48;
// [kLevels] sums to 1.
using Belief = std::array<double, kLevels>;

const Belief& AcceptanceLevels();
// The belief before any observation, Beta(2, 1): density proportional to the acceptance, as bad
// drafters are rarely deployed.
const Belief& IgnorantBelief();
// Sum over levels of a * b.
double Dot(const Belief& a, const Belief& b);
struct Moments {
  double mean = 0;
  double variance = 0;
};
// Moments of `values`, given at each level.
Moments MomentsOf(const Belief& values, const Belief& belief);
// belief = (1 - share) belief + share other.
void Mix(const Belief& other, double share, Belief* belief);

// The acceptance of each depth at each level: logit(depth j) = logit(level) + offset(j). Offsets
// are learned from all sessions, as later depths are often harder; they start at 0 (a truncated
// geometric distribution).
class DepthProfile {
 public:
  explicit DepthProfile(int max_length);

  // Sum over levels of Pr(level) times the tokens, 1 or more, that a round of `length` depths
  // emits.
  double Tokens(const Belief& belief, int length) const;
  // The same at each level.
  const Belief& TokensAt(int length) const { return tokens_[static_cast<size_t>(length)]; }
  // Expected number of depths that a round of `length` reveals.
  double Trials(const Belief& belief, int length) const;
  // Applies Bayes' rule.
  void Update(int accepted, int drafted, Belief* belief) const;
  // Counts a round for the offsets. `mean` is the level expected before it.
  void Learn(int accepted, int drafted, double mean);

 private:
  struct Depth {
    double trials = 0;
    double accepted = 0;
    double expected = 0;  // accepted, had all offsets been 0
  };
  void Tabulate();

  std::vector<Depth> depths_;    // [max_length]
  std::vector<Belief> chances_;  // [max_length] of accepting this depth, at each level
  std::vector<Belief> reaches_;  // [max_length + 1] of accepting so many
  std::vector<Belief> tokens_;   // [max_length + 1] emitted by a round of this length
  int since_tabulated_ = 0;
};

// Expected level.
double MeanLevel(const Belief& belief);
// The number of observed draft tokens that would give this certainty: that of the Beta distribution
// with this mean and variance.
double TrialsAfter(const Belief& belief);

}  // namespace outrider
