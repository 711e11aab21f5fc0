// Tells checkpoints apart without reading all of a large one: a head, and the data that it is
// trained on, belong to the weights that they were made with.
//
// Thread: any.
#pragma once

#include <cstdint>
#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Of config.json and of the weights' files in `directory`: their names, sizes, beginnings and 4096
// samples of each, which another training would all have changed. The acceptance head does not
// count. kNotFound without a file.
Result<uint64_t> ModelFingerprint(const std::filesystem::path& directory);

}  // namespace outrider
