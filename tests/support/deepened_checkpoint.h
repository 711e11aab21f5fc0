// Makes a checkpoint more expensive by adding layers that change nothing. Texts and distributions
// are those of the original, so a drafter keeps its acceptance rate, but relative to a round trip a
// forward pass costs as much as that of a large model. For benchmarks.
#pragma once

#include <filesystem>

#include "common/base/status.h"

namespace outrider {

// Writes to `to` the checkpoint of `from` with `layers` more layers at its end. Each is a copy of
// one of the others (in turn) whose projections back onto the residual stream (o_proj, down_proj)
// are zero. `from` must have a single model.safetensors; every other file is copied.
Status DeepenCheckpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                        int layers);

}  // namespace outrider
