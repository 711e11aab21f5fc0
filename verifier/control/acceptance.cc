#include "verifier/control/acceptance.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "verifier/control/tuning.h"

namespace outrider {
namespace {

double Logit(double p) { return std::log(p / (1 - p)); }

// Sum over levels of term(level), in several lanes, because additions to one sum would wait for
// each other.
template <class Term>
double SumOverLevels(Term term) {
  constexpr size_t kLanes = 8;
  static_assert(kLevels % kLanes == 0);
  std::array<double, kLanes> sums{};
  for (size_t k = 0; k < kLevels; k += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += term(k + lane);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

const Belief& AcceptanceLevels() {
  static const Belief kLevelsTable = [] {
    Belief levels{};
    for (size_t k = 0; k < kLevels; ++k) {
      const double angle = std::numbers::pi / 2 * (static_cast<double>(k) + 0.5) / kLevels;
      levels[k] = std::sin(angle) * std::sin(angle);
    }
    return levels;
  }();
  return kLevelsTable;
}

const Belief& IgnorantBelief() {
  static const Belief kIgnorant = [] {
    Belief belief{};
    for (size_t k = 0; k < kLevels; ++k) {
      const double angle = std::numbers::pi * (static_cast<double>(k) + 0.5) / kLevels;
      // sin(angle) is proportional to the spacing of the levels here.
      belief[k] = std::sin(angle) * AcceptanceLevels()[k];
    }
    const double sum = std::accumulate(belief.begin(), belief.end(), 0.0);
    for (double& b : belief) b /= sum;
    return belief;
  }();
  return kIgnorant;
}

double Dot(const Belief& a, const Belief& b) {
  return SumOverLevels([&](size_t k) { return a[k] * b[k]; });
}

Moments MomentsOf(const Belief& values, const Belief& belief) {
  const double mean = Dot(values, belief);
  const double square = SumOverLevels([&](size_t k) { return belief[k] * values[k] * values[k]; });
  return {.mean = mean, .variance = std::max(0.0, square - mean * mean)};
}

void Mix(const Belief& other, double share, Belief* belief) {
  for (size_t k = 0; k < kLevels; ++k) (*belief)[k] += share * (other[k] - (*belief)[k]);
}

double MeanLevel(const Belief& belief) { return Dot(belief, AcceptanceLevels()); }

double TrialsAfter(const Belief& belief) {
  const auto [mean, variance] = MomentsOf(AcceptanceLevels(), belief);
  return std::max(0.0, mean * (1 - mean) / std::max(variance, 1e-9) - 1);
}

DepthProfile::DepthProfile(int max_length)
    : depths_(static_cast<size_t>(max_length)),
      chances_(static_cast<size_t>(max_length)),
      reaches_(static_cast<size_t>(max_length) + 1),
      tokens_(static_cast<size_t>(max_length) + 1) {
  Tabulate();
}

void DepthProfile::Tabulate() {
  reaches_[0].fill(1);
  tokens_[0].fill(1);
  std::vector<double> offsets;
  double mean = 0, trials = 0;
  for (const Depth& d : depths_) {
    const double expected = d.trials > 0 ? d.expected / d.trials : 0.5;
    const double seen =
        (d.accepted + kTuning.profile_prior * expected) / (d.trials + kTuning.profile_prior);
    // Both are strictly between 0 and 1, as `expected` is a mean of levels.
    offsets.push_back(Logit(seen) - Logit(expected));
    mean += d.trials * offsets.back();
    trials += d.trials;
  }
  // What all depths share is part of the level.
  if (trials > 0) mean /= trials;
  for (size_t j = 0; j < depths_.size(); ++j) {
    const double factor = std::exp(offsets[j] - (trials > 0 ? mean : 0));
    for (size_t k = 0; k < kLevels; ++k) {
      const double odds = factor * AcceptanceLevels()[k] / (1 - AcceptanceLevels()[k]);
      chances_[j][k] = odds / (1 + odds);
      reaches_[j + 1][k] = reaches_[j][k] * chances_[j][k];
      tokens_[j + 1][k] = tokens_[j][k] + reaches_[j + 1][k];
    }
  }
  since_tabulated_ = 0;
}

double DepthProfile::Tokens(const Belief& belief, int length) const {
  return Dot(belief, TokensAt(length));
}

double DepthProfile::Trials(const Belief& belief, int length) const {
  return length == 0 ? 0 : Tokens(belief, length - 1);
}

void DepthProfile::Update(int accepted, int drafted, Belief* belief) const {
  const Belief& reach = reaches_[static_cast<size_t>(accepted)];
  for (size_t k = 0; k < kLevels; ++k) (*belief)[k] *= reach[k];
  if (accepted < drafted) {
    const Belief& failing = chances_[static_cast<size_t>(accepted)];
    for (size_t k = 0; k < kLevels; ++k) (*belief)[k] *= 1 - failing[k];
  }
  const double sum = SumOverLevels([&](size_t k) { return (*belief)[k]; });
  // Sums of products of levels do not vanish for lengths up to kMaxArmLength. If they do, nothing
  // is learned.
  if (!(sum > 1e-200)) {
    *belief = IgnorantBelief();
    return;
  }
  for (double& b : *belief) b /= sum;
}

void DepthProfile::Learn(int accepted, int drafted, double mean) {
  for (int j = 0; j < drafted && j <= accepted; ++j) {
    Depth& d = depths_[static_cast<size_t>(j)];
    d.trials = kTuning.profile_discount * d.trials + 1;
    d.accepted = kTuning.profile_discount * d.accepted + (j < accepted ? 1 : 0);
    d.expected = kTuning.profile_discount * d.expected + mean;
  }
  if (++since_tabulated_ >= kTuning.tabulate_every) Tabulate();
}

}  // namespace outrider
