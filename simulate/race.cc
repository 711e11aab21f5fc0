#include "simulate/race.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

namespace outrider {
namespace {

constexpr double kMaxSets = 1 << 15;  // all sets of 15 others: any count at a vocabulary of 16

double Binomial(int n, int k) {
  double product = 1;
  for (int i = 1; i <= k; ++i) product = product * (n - k + i) / i;
  return k < 0 || k > n ? 0 : product;
}

// With E_x = e, x wins the target's race if E_y > e a for all others, a = p(y) / p(x), and y
// precedes x in the draft's if E_y < e b, b = q(y) / q(x). Only tokens with b > a can do both: Pr(a
// e < E_y < b e) = exp(-a e) - exp(-b e). Expanding the products over the set of those that do, and
// integrating over e, leaves for each set R of fewer than m tokens a term
//   (-1)^(m - 1 - |R|) C(u - |R| - 1, m - 1 - |R|) / (1 + sum_R a + sum_{not R} max(a, b)),
// u = how many can. The denominators below are p(x) times these, so that no a overflows.
class SetSum {
 public:
  SetSum(std::vector<double> target, std::vector<double> draft, int count)
      : target_(std::move(target)), draft_(std::move(draft)) {
    const auto u = static_cast<int>(target_.size());
    for (int r = 0; r < count; ++r) {
      const int rest = count - 1 - r;
      weights_.push_back((rest % 2 == 0 ? 1 : -1) * Binomial(u - r - 1, rest));
    }
  }

  // Sum over the tokens from `first` on; `chosen` of those before are in R, and all of those add up
  // to `length`. Uses sums without differences, because R's tokens would cancel for large b.
  double From(size_t first, size_t chosen, double length) const {
    if (first == target_.size()) return weights_[chosen] / length;
    double sum = From(first + 1, chosen, length + draft_[first]);
    if (chosen + 1 < weights_.size()) sum += From(first + 1, chosen + 1, length + target_[first]);
    return sum;
  }

 private:
  std::vector<double> target_, draft_;  // p(x) a and p(x) b of the tokens with b > a
  std::vector<double> weights_;         // by |R|
};

double MatchProbability(std::span<const double> target, std::span<const double> draft, size_t x,
                        int count) {
  const double scale = target[x] / draft[x];
  if (!(target[x] > 0) || !std::isfinite(scale)) return 0;
  std::vector<double> a, b;
  double length = target[x], tail = 0;
  for (size_t y = 0; y < target.size(); ++y) {
    if (y == x) continue;
    const double other = scale * draft[y];
    if (other > target[y]) {
      a.push_back(target[y]);
      b.push_back(other);
      tail += other;
    } else {
      length += target[y];
    }
  }
  if (count == 1) return target[x] / (length + tail);
  // x is always among the first to arrive
  if (count > static_cast<int>(a.size())) return target[x];
  return target[x] * SetSum(std::move(a), std::move(b), count).From(0, 0, length);
}

}  // namespace

std::vector<double> RaceMatchDistribution(std::span<const double> target,
                                          std::span<const double> draft, int count) {
  std::vector<double> distribution(target.size());
  for (size_t x = 0; x < distribution.size(); ++x)
    distribution[x] = MatchProbability(target, draft, x, count);
  return distribution;
}

Status CheckRaceCost(int vocab, int count) {
  double sets = 0;
  for (int size = 0; size < std::min(count, vocab); ++size) sets += Binomial(vocab - 1, size);
  if (count == 1 || sets <= kMaxSets) return Status();
  return InvalidArgument("exact: gumbel with " + std::to_string(count) + " candidates and vocab " +
                         std::to_string(vocab) +
                         " has too many orders of arrival to enumerate; sample instead");
}

}  // namespace outrider
