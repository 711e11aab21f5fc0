// Seconds as a linear function of three features, fitted online with forgetting.
#pragma once

#include <array>
#include <cstdint>

namespace outrider {

// Least squares of relative errors: a stall that takes a hundred times the usual has little weight,
// and short steps have as much as long ones. No weight is negative: a cost below nothing in one
// feature would be made up for in another. Each fit stays near the one before in directions that
// recent observations do not cover, so a long stretch of equal steps does not make it forget the
// rest.
//
// Thread: none of its own. Never fails: invalid times are ignored.
class LinearFit {
 public:
  static constexpr int kFeatures = 3;
  using Features = std::array<double, kFeatures>;

  // `forgetting` in (0, 1]: the discount per observation. The first observation is explained by the
  // feature `first` alone, as if the others cost nothing.
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
