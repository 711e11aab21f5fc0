#include "tests/support/checkpoint_folder.h"

#include <vector>

#include "common/base/mapped_file.h"
#include "common/model/safetensors.h"

namespace outrider {

Result<std::map<std::string, StoredTensor>> ReadTensors(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kWeightsFile;
  OUTRIDER_ASSIGN(const MappedFile file, MappedFile::Open(path));
  OUTRIDER_ASSIGN(const std::vector<SafetensorsEntry> entries,
                  ParseSafetensors(file.bytes(), path.string()));
  std::map<std::string, StoredTensor> tensors;
  for (const SafetensorsEntry& entry : entries) {
    const char* const bytes = reinterpret_cast<const char*>(entry.bytes.data());
    tensors[entry.name] = {entry.dtype, entry.shape, std::string(bytes, entry.bytes.size())};
  }
  return tensors;
}

Status CopyOtherFiles(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failure;
  std::filesystem::create_directories(to, failure);
  if (failure) return Internal(to.string() + ": " + failure.message());
  for (const auto& entry : std::filesystem::directory_iterator(from, failure)) {
    const std::filesystem::path name = entry.path().filename();
    if (!entry.is_regular_file() || name == kWeightsFile || name == kConfigFile) continue;
    std::filesystem::copy_file(entry.path(), to / name,
                               std::filesystem::copy_options::overwrite_existing, failure);
    if (failure) return Internal((to / name).string() + ": " + failure.message());
  }
  return failure ? Internal(from.string() + ": " + failure.message()) : Status();
}

}  // namespace outrider
