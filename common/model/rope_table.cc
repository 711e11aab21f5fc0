#include "common/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace outrider {
namespace {

// Rescales the frequency of pair `pair`, with one overload per scaling.
struct PairFrequency {
  const RopeDescription& rope;
  int pair;
  double frequency;

  double operator()(const std::monostate&) const { return frequency; }
  double operator()(const LinearRopeScaling& scaling) const { return frequency / scaling.factor; }
  double operator()(const Llama3RopeScaling& scaling) const;
  double operator()(const YarnRopeScaling& scaling) const;
  double operator()(const LongRopeScaling& scaling) const {
    return frequency / scaling.factors[static_cast<size_t>(pair)];
  }
};

// Pairs that turn often within the original context are unchanged, those that turn rarely are
// slowed down by `factor`, and those between are interpolated.
double PairFrequency::operator()(const Llama3RopeScaling& scaling) const {
  const double turns =
      scaling.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
  const double low = scaling.low_freq_factor;
  const double high = scaling.high_freq_factor;
  if (turns > high) return frequency;
  if (turns < low) return frequency / scaling.factor;
  const double kept = (turns - low) / (high - low);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

// The same with a ramp over pairs, between those that turn beta_fast and beta_slow times.
double PairFrequency::operator()(const YarnRopeScaling& scaling) const {
  const auto pair_that_turns = [&](double times) {
    const double period = scaling.original_max_position_embeddings / times;
    return rope.dims * std::log(period / (2 * std::numbers::pi)) /
           (2 * std::log(static_cast<double>(rope.theta)));
  };
  double low = pair_that_turns(scaling.beta_fast);
  double high = pair_that_turns(scaling.beta_slow);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rope.dims - 1.0);
  if (low == high) high += 0.001;  // as in Transformers
  const double slowed = std::clamp((pair - low) / (high - low), 0.0, 1.0);
  return slowed * frequency / scaling.factor + (1 - slowed) * frequency;
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeDescription& rope) {
  std::vector<double> frequencies;
  for (int pair = 0; pair < rope.dims / 2; ++pair) {
    const double frequency = std::pow(static_cast<double>(rope.theta), -2.0 * pair / rope.dims);
    frequencies.push_back(std::visit(PairFrequency{rope, pair, frequency}, rope.scaling));
  }
  return frequencies;
}

std::vector<RopeDescription> DistinctRopes(std::span<const LayerDescription> layers) {
  std::vector<RopeDescription> kinds;
  for (const LayerDescription& layer : layers) {
    const RopeDescription& rope = layer.attention.rope;
    if (std::find(kinds.begin(), kinds.end(), rope) == kinds.end()) kinds.push_back(rope);
  }
  return kinds;
}

std::vector<float> RopeTable(const RopeDescription& rope, int positions) {
  const std::vector<double> frequencies = RopeFrequencies(rope);
  const size_t half = frequencies.size();
  std::vector<float> table(static_cast<size_t>(positions) * 2 * half);
  for (size_t position = 0; position < static_cast<size_t>(positions); ++position) {
    float* row = table.data() + position * 2 * half;
    for (size_t pair = 0; pair < half; ++pair) {
      const double angle = static_cast<double>(position) * frequencies[pair];
      row[pair] = static_cast<float>(std::cos(angle) * rope.attention_factor);
      row[half + pair] = static_cast<float>(std::sin(angle) * rope.attention_factor);
    }
  }
  return table;
}

}  // namespace outrider
