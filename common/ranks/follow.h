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

// Floats of the largest operation of a SharedCommunicator between the ranks of a model.
size_t SharedFloats(const ModelConfig& config, const ModelOptions& options, int ranks);

using RankBackend = std::function<Result<std::unique_ptr<Backend>>(int rank)>;

// Loads the part of the model in `directory` that the leading rank appoints over `channel`, and
// runs its passes until it is gone. `region`: of a SharedCommunicator; unused on a device. Errors
// of loading are returned, and told to the leading rank; kFailedPrecondition if its checkpoint or
// options are others. Returns OK once the leading rank has ended.
Status Follow(RankChannel channel, int region, const std::filesystem::path& directory,
              const ModelOptions& options, const RankBackend& make_backend);

}  // namespace outrider
