// Seconds as a linear function of three features, fitted online with forgetting.
#pragma once

#include <array>
#include <cstdint>

namespace outrider {

// Least squares of relative errors: a stall that takes a hundred times the usual counts for little,
// and short steps as much as long ones. Each fit stays near the one before in directions that
// recent observations say nothing of, so that a long stretch of equal steps forgets nothing else.
//
// Thread: none of its own. Never fails: what is no time is left out.
class LinearFit {
 public:
  static constexpr int kFeatures = 3;
  using Features = std::array<double, kFeatures>;

  // `forgetting` in (0, 1]: what an observation weighs after the next. The first observation is
  // explained by `first` alone: all other features are taken to cost nothing.
  LinearFit(double forgetting, int first) : forgetting_(forgetting), first_(first) {}

  // Features are finite and at least 0. Ignored unless features[first] and seconds are positive.
  void Observe(const Features& features, double seconds);
  // At least 0.
  double Predict(const Features& features) const;
  int64_t observations() const { return observations_; }

 private:
  void Solve();

  double forgetting_;
  int first_;
  int64_t observations_ = 0;
  Features weights_{};
  std::array<Features, kFeatures> squares_{};  // sum of discounted x x^T / seconds^2
  Features sums_{};                            // sum of discounted x / seconds
};

}  // namespace outrider
