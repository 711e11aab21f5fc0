// A smoothed mean and deviation of a time that is measured again and again, as TCP keeps its round
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

  // A time that is known to be `seconds` at least: counts as that much where it is above the mean,
  // and says nothing where it is below.
  void AddAtLeast(double seconds) {
    if (seconds > mean) Add(seconds);
  }
};

}  // namespace outrider
