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

void PassSums::Add(const PassSums& other, double factor) {
  for (double PassSums::*const sum :
       {&PassSums::passes, &PassSums::decoding, &PassSums::idle_seconds, &PassSums::rows,
        &PassSums::tokens, &PassSums::first_chunks, &PassSums::first_tokens, &PassSums::drafted,
        &PassSums::accepted}) {
    this->*sum += factor * (other.*sum);
  }
}

}  // namespace outrider
