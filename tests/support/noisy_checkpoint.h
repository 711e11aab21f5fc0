// Adds noise to a checkpoint's matrices: the result is a drafter that often agrees with the
// original, but not always. For tests that need any pair.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Writes to `to` the checkpoint of `from` (one model.safetensors, in bf16) with every element of
// every matrix times 1 + strength * N(0, 1), sampled with `seed`. All other files are copied.
// kUnimplemented for matrices of another type.
Status AddNoise(const std::filesystem::path& from, const std::filesystem::path& to, float strength,
                uint64_t seed);

}  // namespace outrider
