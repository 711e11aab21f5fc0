// The angles of rotary position embeddings (Su et al. 2021, "RoFormer", section 3.2).
#pragma once

#include <span>
#include <vector>

#include "common/model/layer_description.h"

namespace outrider {

// Radians per position of each of the rope.dims / 2 rotated pairs, rescaled according to `rope`
// (the rope types of Hugging Face Transformers).
std::vector<double> RopeFrequencies(const RopeDescription& rope);

// The distinct kinds of RoPE among the layers.
std::vector<RopeDescription> DistinctRopes(std::span<const LayerDescription> layers);

// [positions, rope.dims]: each row has dims / 2 cosines, then as many sines, times the attention
// factor. Computed in double: at position 100,000 an angle in float is off by a hundredth.
std::vector<float> RopeTable(const RopeDescription& rope, int positions);

}  // namespace outrider
