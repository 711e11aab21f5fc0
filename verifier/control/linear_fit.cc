#include "verifier/control/linear_fit.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

// Weight of the last fit relative to the data's. Noise moves directions without data by about this
// share per observation.
constexpr double kStay = 1e-3;

}  // namespace

void LinearFit::Observe(const Features& features, double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return;
  const bool sound = std::all_of(features.begin(), features.end(),
                                 [](double x) { return std::isfinite(x) && x >= 0; });
  const auto first = static_cast<size_t>(first_);
  if (!sound || features[first] <= 0) return;
  if (observations_ == 0) weights_[first] = seconds / features[first];
  ++observations_;
  for (size_t i = 0; i < kFeatures; ++i) {
    sums_[i] = forgetting_ * sums_[i] + features[i] / seconds;
    for (size_t j = 0; j < kFeatures; ++j) {
      squares_[i][j] =
          forgetting_ * squares_[i][j] + features[i] * features[j] / (seconds * seconds);
    }
  }
  Solve();
}

// (squares + stay) w = sums + stay w_before, by elimination: the matrix is positive definite.
void LinearFit::Solve() {
  std::array<std::array<double, kFeatures + 1>, kFeatures> m{};
  for (size_t i = 0; i < kFeatures; ++i) {
    const double stay = kStay * squares_[i][i] + 1e-12;
    for (size_t j = 0; j < kFeatures; ++j) m[i][j] = squares_[i][j];
    m[i][i] += stay;
    m[i][kFeatures] = sums_[i] + stay * weights_[i];
  }
  for (size_t i = 0; i < kFeatures; ++i) {
    for (size_t row = i + 1; row < kFeatures; ++row) {
      const double factor = m[row][i] / m[i][i];
      for (size_t j = i; j <= kFeatures; ++j) m[row][j] -= factor * m[i][j];
    }
  }
  for (size_t i = kFeatures; i-- > 0;) {
    double value = m[i][kFeatures];
    for (size_t j = i + 1; j < kFeatures; ++j) value -= m[i][j] * weights_[j];
    weights_[i] = value / m[i][i];
  }
}

double LinearFit::Predict(const Features& features) const {
  double seconds = 0;
  // A negative cost is noise.
  for (size_t i = 0; i < kFeatures; ++i) seconds += std::max(0.0, weights_[i]) * features[i];
  return seconds;
}

}  // namespace outrider
