// A model on several devices, each in a process of its own, as the process of the leading rank has
// it: a Model like any other. The others (follow.h) are told about each pass before it runs.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/transformer.h"
#include "common/ranks/channel.h"

namespace outrider {

// The other ranks: a channel to each, from rank 1 on, and what keeps their processes running.
struct OtherRanks {
  std::vector<RankChannel> channels;
  std::shared_ptr<void> processes;
  int region = -1;  // of a SharedCommunicator; unused on a device
};

// Loads the leading rank's part while the others load theirs. Errors are those of LoadModel, of
// CheckRanks, and of the other ranks, which they name. A rank that ends later is not noticed here
// (rank_processes.h): passes then never end.
Result<std::unique_ptr<Model>> LoadLeadingModel(const std::filesystem::path& directory,
                                                std::unique_ptr<Backend> backend,
                                                ModelOptions options, OtherRanks others,
                                                const LoadProgress& progress = {});

}  // namespace outrider
