// Distinguishes checkpoints without reading all of a large one: an acceptance head, and its
// training data, belong to the weights with which they were made.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Hash over the weights' files of `directory` and its config.json, or over the GGUF file that
// `directory` is or contains: each file's name, size, first MiB and 4096 samples, which any other
// training would have changed. The acceptance head is left out. kNotFound if there are no weights.
Result<uint64_t> ModelFingerprint(const std::filesystem::path& directory);

}  // namespace outrider
