// Smoothed mean and deviation of a repeatedly measured time, computed as TCP does for its round
// trip (RFC 6298, section 2).
#pragma once

#include <cmath>

namespace outrider {

struct Estimate {
  static constexpr double kMeanGain = 1.0 / 8;
  static constexpr double kDeviationGain = 1.0 / 4;

  bool measured = false;
  double mean = 0;  // seconds
  double deviation = 0;

  void Add(double seconds) {
    if (!measured) {
      measured = true;
      mean = seconds;
      deviation = seconds / 2;
      return;
    }
    deviation += kDeviationGain * (std::fabs(seconds - mean) - deviation);
    mean += kMeanGain * (seconds - mean);
  }

  // Adds a time of at least `seconds`: it counts as that if it is above the mean, and is ignored if
  // it is below.
  void AddAtLeast(double seconds) {
    if (seconds > mean) Add(seconds);
  }
};

}  // namespace outrider
