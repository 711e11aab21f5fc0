// Pearson's chi-square test of counts against a distribution, for the exactness suites. Seeds are
// fixed, so a test that passes once always passes; kFalseAlarm is the probability that a correct
// program has an unlucky seed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace outrider::testing {

inline constexpr double kFalseAlarm = 1e-6;

// Q(a, x), the upper regularised incomplete gamma function: its series below a + 1, Lentz's
// continued fraction above (Abramowitz and Stegun 6.5.29, 6.5.31).
inline double UpperGamma(double a, double x) {
  if (x <= 0) return 1;
  const double front = std::exp(-x + a * std::log(x) - std::lgamma(a));
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 100000 && term > sum * 1e-16; ++n) sum += term *= x / (a + n);
    return 1 - front * sum;
  }
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
  for (int n = 1; n < 100000; ++n) {
    const double an = -n * (n - a);
    b += 2;
    d = an * d + b;
    d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
    c = b + an / c;
    if (std::fabs(c) < kTiny) c = kTiny;
    h *= d * c;
    if (std::fabs(d * c - 1) < 1e-15) break;
  }
  return front * h;
}

// The probability that counts sampled from the distribution `distribution` deviate at least as much
// as these. Cells with expected counts below 5 are pooled, as the chi-square approximation
// requires. 0 when a cell of probability 0 has a count.
inline double ChiSquarePValue(std::span<const int64_t> counts,
                              std::span<const double> distribution) {
  double total = 0;
  for (const int64_t c : counts) total += static_cast<double>(c);
  double statistic = 0, pooled_count = 0, pooled_mean = 0;
  int cells = 0;
  const auto add = [&](double count, double mean) {
    statistic += (count - mean) * (count - mean) / mean;
    ++cells;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double mean = distribution[i] * total;
    const auto count = static_cast<double>(counts[i]);
    if (distribution[i] <= 0) {
      if (count > 0) return 0;
    } else if (mean < 5) {
      pooled_count += count;
      pooled_mean += mean;
    } else {
      add(count, mean);
    }
  }
  if (pooled_mean >= 5) add(pooled_count, pooled_mean);
  return cells < 2 ? 1 : UpperGamma(0.5 * (cells - 1), 0.5 * statistic);
}

}  // namespace outrider::testing
