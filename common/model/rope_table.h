// The angles of rotary position embeddings (Su et al. 2021, "RoFormer", section 3.2).
#pragma once

#include <span>
#include <vector>

#include "common/model/layer_description.h"

namespace outrider {

// Radians per position of each of the head_dim / 2 rotated pairs, after Llama 3 scaling if
// `rope` has it (the "llama3" rope type of Hugging Face Transformers).
std::vector<double> RopeFrequencies(const RopeDescription& rope, int head_dim);

// The kinds of RoPE that the layers have, each once.
std::vector<RopeDescription> DistinctRopes(std::span<const LayerDescription> layers);

// [positions, head_dim]: each row head_dim / 2 cosines, then as many sines. Computed in double: at
// position 100,000 an angle in float is off by a hundredth.
std::vector<float> RopeTable(const RopeDescription& rope, int head_dim, int positions);

}  // namespace outrider
