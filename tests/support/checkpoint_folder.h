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

// The tensors of its one model.safetensors, by name.
Result<std::map<std::string, StoredTensor>> ReadTensors(const std::filesystem::path& folder);

// Makes the folder `to` and copies every file but weights and config.json into it.
Status CopyOtherFiles(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace outrider
