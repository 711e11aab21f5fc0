#include "common/model/rope_table.h"

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

std::vector<double> RopeFrequencies(const ModelConfig& config) {
  std::vector<double> frequencies;
  for (int pair = 0; pair < config.head_dim / 2; ++pair) {
    const double frequency =
        std::pow(static_cast<double>(config.rope_theta), -2.0 * pair / config.head_dim);
    frequencies.push_back(config.has_rope_scaling ? ScaleLlama3(frequency, config.rope_scaling)
                                                  : frequency);
  }
  return frequencies;
}

std::vector<float> RopeTable(const ModelConfig& config, int positions) {
  const std::vector<double> frequencies = RopeFrequencies(config);
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
