#include "simulate/fleet/fleet_figures.h"

#include <algorithm>
#include <cmath>

namespace outrider {
namespace {

constexpr double kMin = 1e-6;
constexpr double kRatio = 1.02;
constexpr int kMostBins = 1600;  // up to 6e7

}  // namespace

void LogHistogram::Add(double value) {
  const double bin = std::log(std::max(value, kMin) / kMin) / std::log(kRatio);
  const auto index = static_cast<size_t>(std::clamp(static_cast<int>(bin), 0, kMostBins));
  if (bins_.size() <= index) bins_.resize(index + 1);
  ++bins_[index];
  ++count_;
  sum_ += value;
}

double LogHistogram::Quantile(double share) const {
  if (count_ == 0) return 0;
  const auto rank = static_cast<int64_t>(share * static_cast<double>(count_ - 1));
  int64_t seen = 0;
  for (size_t bin = 0; bin < bins_.size(); ++bin) {
    seen += bins_[bin];
    if (seen > rank) return kMin * std::pow(kRatio, static_cast<double>(bin) + 0.5);
  }
  return 0;
}

void FleetSums::Add(const Request& request) {
  ++requests;
  first_tokens += request.first_tokens;
  further_tokens += request.further_tokens;
  further_seconds += request.further_seconds;
  x += request.computed_tokens;
  y += request.first_token_seconds;
  xx += static_cast<double>(request.computed_tokens) * request.computed_tokens;
  xy += request.computed_tokens * request.first_token_seconds;
}

}  // namespace outrider
