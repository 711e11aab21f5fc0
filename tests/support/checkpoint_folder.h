// Reads and writes a whole checkpoint folder, to make one checkpoint from another.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "common/base/status.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {

inline constexpr char kWeightsFile[] = "model.safetensors";
inline constexpr char kConfigFile[] = "config.json";

// The tensors of the folder's only model.safetensors, by name.
Result<std::map<std::string, StoredTensor>> ReadTensors(const std::filesystem::path& folder);

// Creates the folder `to` and copies every file except weights and config.json into it.
Status CopyOtherFiles(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace outrider
