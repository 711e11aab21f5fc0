// Writes and reads the safetensors format (see common/model/safetensors.h), for test checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct StoredTensor {
  std::string dtype;  // as spelled in the format: "BF16"
  std::vector<int64_t> shape;
  std::string bytes;
};

// Replaces the file. kInternal if it cannot be written.
Status WriteFile(const std::filesystem::path& path, std::string_view text);

// The tensors of a file with the content `file`. REQUIRES: WriteSafetensors wrote it.
std::map<std::string, StoredTensor> ReadSafetensors(std::string_view file);

// The tensors by name, in the order of names.
Status WriteSafetensors(const std::filesystem::path& path,
                        const std::map<std::string, StoredTensor>& tensors);

}  // namespace outrider
