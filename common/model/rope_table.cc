#include "common/model/rope_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace outrider {
namespace {

// Pairs that turn often within the original context stay, those that turn seldom are slowed down by
// `factor`, those between are interpolated.
double ScaleLlama3(double frequency, const Llama3RopeScaling& scaling) {
  const double turns =
      scaling.original_max_position_embeddings * frequency / (2 * std::numbers::pi);
  const double low = scaling.low_freq_factor;
  const double high = scaling.high_freq_factor;
  if (turns > high) return frequency;
  if (turns < low) return frequency / scaling.factor;
  const double kept = (turns - low) / (high - low);
  return kept * frequency + (1 - kept) * frequency / scaling.factor;
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeDescription& rope, int head_dim) {
  std::vector<double> frequencies;
  for (int pair = 0; pair < head_dim / 2; ++pair) {
    const double frequency = std::pow(static_cast<double>(rope.theta), -2.0 * pair / head_dim);
    frequencies.push_back(rope.scaling ? ScaleLlama3(frequency, *rope.scaling) : frequency);
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

std::vector<float> RopeTable(const RopeDescription& rope, int head_dim, int positions) {
  const std::vector<double> frequencies = RopeFrequencies(rope, head_dim);
  const size_t half = frequencies.size();
  std::vector<float> table(static_cast<size_t>(positions) * 2 * half);
  for (size_t position = 0; position < static_cast<size_t>(positions); ++position) {
    float* row = table.data() + position * 2 * half;
    for (size_t pair = 0; pair < half; ++pair) {
      const double angle = static_cast<double>(position) * frequencies[pair];
      row[pair] = static_cast<float>(std::cos(angle));
      row[half + pair] = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace outrider
