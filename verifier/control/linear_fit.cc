#include "verifier/control/linear_fit.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace outrider {
namespace {

// Weight of the last fit relative to the data's. Noise moves directions without data by about this
// share per observation.
constexpr double kStay = 1e-3;
// For Estimates::kMean: so many first observations are weighted as for kUsual, and later ones count
// at most as so many times the prediction.
constexpr int64_t kFirst = 4;
constexpr double kStall = 4;

// The solution of matrix w = right among weights that are zero outside of `subset` (bits), by
// elimination: the matrix is positive definite.
LinearFit::Features SolveAmong(unsigned subset,
                               std::array<LinearFit::Features, LinearFit::kFeatures> matrix,
                               LinearFit::Features right) {
  const auto in = [subset](size_t i) { return ((subset >> i) & 1U) != 0; };
  for (size_t i = 0; i < LinearFit::kFeatures; ++i) {
    if (!in(i)) continue;
    for (size_t row = i + 1; row < LinearFit::kFeatures; ++row) {
      if (!in(row)) continue;
      const double factor = matrix[row][i] / matrix[i][i];
      for (size_t j = i; j < LinearFit::kFeatures; ++j) matrix[row][j] -= factor * matrix[i][j];
      right[row] -= factor * right[i];
    }
  }
  LinearFit::Features weights{};
  for (size_t i = LinearFit::kFeatures; i-- > 0;) {
    if (!in(i)) continue;
    double value = right[i];
    for (size_t j = i + 1; j < LinearFit::kFeatures; ++j) value -= matrix[i][j] * weights[j];
    weights[i] = value / matrix[i][i];
  }
  return weights;
}

}  // namespace

void LinearFit::Observe(const Features& features, double seconds) {
  if (!std::isfinite(seconds) || seconds <= 0) return;
  const bool sound = std::all_of(features.begin(), features.end(),
                                 [](double x) { return std::isfinite(x) && x >= 0; });
  const auto first = static_cast<size_t>(first_);
  if (!sound || features[first] <= 0) return;
  if (observations_ == 0) weights_[first] = seconds / features[first];
  double scale = seconds;
  if (estimates_ == Estimates::kMean && observations_ >= kFirst) {
    if (const double predicted = Predict(features); predicted > 0) {
      scale = predicted;
      seconds = std::min(seconds, kStall * scale);
    }
  }
  ++observations_;
  for (size_t i = 0; i < kFeatures; ++i) {
    sums_[i] = forgetting_ * sums_[i] + features[i] * seconds / (scale * scale);
    for (size_t j = 0; j < kFeatures; ++j) {
      squares_[i][j] = forgetting_ * squares_[i][j] + features[i] * features[j] / (scale * scale);
    }
  }
  Solve();
}

void LinearFit::Solve() {
  // (squares + stay) w = sums + stay w_before
  std::array<Features, kFeatures> matrix = squares_;
  Features right = sums_;
  for (size_t i = 0; i < kFeatures; ++i) {
    const double stay = kStay * squares_[i][i] + 1e-12;
    matrix[i][i] += stay;
    right[i] += stay * weights_[i];
  }
  // Of the subsets whose best weights are not negative, the one that explains most has the best
  // weights that are not negative.
  double most = -1;
  for (unsigned subset = 1; subset < 1U << kFeatures; ++subset) {
    const Features weights = SolveAmong(subset, matrix, right);
    if (*std::min_element(weights.begin(), weights.end()) < 0) continue;
    const double explained = std::inner_product(weights.begin(), weights.end(), right.begin(), 0.0);
    if (explained <= most) continue;
    most = explained;
    weights_ = weights;
  }
}

double LinearFit::Predict(const Features& features) const {
  return std::inner_product(weights_.begin(), weights_.end(), features.begin(), 0.0);
}

}  // namespace outrider
