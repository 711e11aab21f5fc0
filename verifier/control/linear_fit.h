// Seconds as a linear function of three features, fitted online with forgetting.
#pragma once

#include <array>
#include <cstdint>

namespace outrider {

// Least squares of relative errors, so that short steps have as much weight as long ones. No weight
// is negative: a cost below nothing in one feature would be made up for in another. Each fit stays
// near the one before in directions that recent observations do not cover, so a long stretch of
// equal steps does not make it forget the rest.
//
// Thread: none of its own. Never fails: invalid times are ignored.
class LinearFit {
 public:
  static constexpr int kFeatures = 3;
  using Features = std::array<double, kFeatures>;

  // What is estimated where equal features take different times.
  enum class Estimates {
    kUsual,  // errors are relative to the time: a stall of a hundred times the usual counts little
    kMean,   // errors are relative to the prediction; a stall counts as a few times that
  };

  // `forgetting` in (0, 1]: the discount per observation. The first observation is explained by the
  // feature `first` alone, as if the others cost nothing.
  LinearFit(double forgetting, int first, Estimates estimates)
      : forgetting_(forgetting), first_(first), estimates_(estimates) {}

  // Features are finite and at least 0. Ignored unless features[first] and seconds are positive.
  void Observe(const Features& features, double seconds);
  // At least 0.
  double Predict(const Features& features) const;
  int64_t observations() const { return observations_; }

 private:
  void Solve();

  double forgetting_;
  int first_;
  Estimates estimates_;
  int64_t observations_ = 0;
  Features weights_{};
  std::array<Features, kFeatures> squares_{};  // sum of discounted x x^T / seconds^2
  Features sums_{};                            // sum of discounted x / seconds
};

}  // namespace outrider
