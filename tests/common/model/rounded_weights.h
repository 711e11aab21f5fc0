// What --weights int8 and int4 make of floats, in a checkpoint of floats. Shares no code with the
// rounding in common/.
#pragma once

#include <filesystem>

#include "common/backend/packed_matrix.h"

namespace outrider {

// Rounds the matrices of a safetensors file to codes, and stores their values as f32: for kW4A16 4
// bits in groups of 128, except for token tables, and for kW8A8 8 bits with a scale a row.
void RoundMatrices(const std::filesystem::path& file, WeightType type);

}  // namespace outrider
