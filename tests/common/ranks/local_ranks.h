// A model divided among ranks that are threads of this process.
#pragma once

#include <filesystem>
#include <memory>

#include "common/base/status.h"
#include "common/model/transformer.h"
#include "common/ranks/follow.h"

namespace outrider {

// Follower threads have `options` but for what `change` makes of them, if it is given.
Result<std::unique_ptr<Model>> LoadOnRanks(
    const std::filesystem::path& directory, int ranks, const ModelOptions& options,
    const RankBackend& make_backend,
    const std::function<void(ModelOptions* options)>& change = nullptr);

}  // namespace outrider
