// Integrates a round's coins out: the exact law of the verdict, through the same rule code that
// production runs. For `outrider simulate --exact` and for the exactness tests.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "verifier/rules/verify.h"

namespace outrider {

// Runs a round once for every way in which its coins can fall: each run replays the decisions of
// the one before up to the last that can still fall otherwise. The next token is not a branch: its
// whole law is kept.
//
// A row that is asked twice answers from one coin, so that a rule which reuses a coin gets the law
// that it would have in production.
class EnumeratingCoins {
 public:
  bool Accept(int row, double probability) {
    auto [at, is_new] = known_.try_emplace(row, 0.0, 1.0);
    auto& [low, high] = at->second;  // where the row's coin lies, as far as this run knows
    if (probability >= high) return true;
    if (probability <= low) return false;
    if (step_ == decisions_.size()) decisions_.push_back(true);
    const bool accept = decisions_[step_++];
    const double share = (probability - low) / (high - low);
    probability_ *= accept ? share : 1 - share;
    (accept ? high : low) = probability;
    return accept;
  }

  template <class Real, class Weight>
  TokenId Next(int /*row*/, const ResidualRow<Real, Weight>& law) {
    next_law_.resize(static_cast<size_t>(law.vocab));
    law.Law(next_law_.data());
    return -1;
  }

  // Of this run's decisions.
  double probability() const { return probability_; }
  // Of the next token, given this run's decisions.
  const std::vector<double>& next_law() const { return next_law_; }

  // Makes ready for the next run; false when there is none.
  bool Advance() {
    while (!decisions_.empty() && !decisions_.back()) decisions_.pop_back();
    if (decisions_.empty()) return false;
    decisions_.back() = false;
    step_ = 0;
    probability_ = 1;
    known_.clear();
    return true;
  }

 private:
  std::vector<bool> decisions_;
  size_t step_ = 0;
  double probability_ = 1;
  std::map<int, std::pair<double, double>> known_;
  std::vector<double> next_law_;
};

// [g + 1, vocab]: entry (i, x) is Pr(i draft tokens stand, then x | the draft).
template <class Real, class Weight>
std::vector<double> VerdictLaw(Rule rule, const Round<Real, Weight>& round) {
  const auto vocab = static_cast<size_t>(round.vocab);
  std::vector<double> law((round.tokens.size() + 1) * vocab, 0.0);
  EnumeratingCoins coins;
  do {
    const Verdict verdict = Verify(rule, round, coins);
    double* row = law.data() + static_cast<size_t>(verdict.accepted) * vocab;
    for (size_t x = 0; x < vocab; ++x) row[x] += coins.probability() * coins.next_law()[x];
  } while (coins.Advance());
  return law;
}

}  // namespace outrider
