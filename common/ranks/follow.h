// A rank that follows: it holds its part of a model and does what the leading rank tells it to.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/transformer.h"
#include "common/ranks/channel.h"

namespace outrider {

using RankBackend = std::function<Result<std::unique_ptr<Backend>>(int rank)>;

// Loads the part of the model in `directory` that the leading rank assigns over `channel`, and runs
// its passes until the channel is closed. `region`: of a SharedCommunicator; unused on a device.
// Errors are told to the leading rank (kFailedPrecondition: its checkpoint, options or kind of
// device are others).
void Follow(RankChannel channel, int region, const std::filesystem::path& directory,
            const ModelOptions& options, const RankBackend& make_backend);

}  // namespace outrider
