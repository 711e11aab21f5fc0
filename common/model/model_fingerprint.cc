#include "common/model/model_fingerprint.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/fnv_hash.h"
#include "common/base/mapped_file.h"
#include "common/gguf/gguf_file.h"
#include "common/model/acceptance_head.h"

namespace outrider {
namespace {

constexpr size_t kBeginningBytes = 1 << 20;  // the header, and all of a small file
constexpr size_t kSamples = 4096;
constexpr size_t kSampleBytes = 64;

Status AddFile(const std::filesystem::path& file, FnvHash* hash) {
  OUTRIDER_ASSIGN(const MappedFile mapped, MappedFile::Open(file));
  const std::string_view bytes(reinterpret_cast<const char*>(mapped.bytes().data()),
                               mapped.bytes().size());
  hash->Add(file.filename().string());
  hash->Add(bytes.size());
  hash->Add(bytes.substr(0, kBeginningBytes));
  if (bytes.size() <= kBeginningBytes) return Status();
  const std::string_view rest = bytes.substr(kBeginningBytes);
  for (size_t i = 0; i < kSamples; ++i) {
    hash->Add(rest.substr(rest.size() / kSamples * i, kSampleBytes));
  }
  return Status();
}

}  // namespace

Result<uint64_t> ModelFingerprint(const std::filesystem::path& directory) {
  if (const auto gguf = FindGgufModel(directory); gguf.has_value()) {
    FnvHash hash;
    OUTRIDER_TRY(AddFile(*gguf, &hash));
    return hash.value();
  }
  std::vector<std::filesystem::path> files;
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(directory, failure)) {
    const std::filesystem::path& file = entry.path();
    if (file.extension() == ".safetensors" && file.filename() != kAcceptanceHeadFile) {
      files.push_back(file);
    }
  }
  if (failure || files.empty()) return NotFound(directory.string() + ": no weights");
  std::sort(files.begin(), files.end());
  files.push_back(directory / "config.json");
  FnvHash hash;
  for (const std::filesystem::path& file : files) OUTRIDER_TRY(AddFile(file, &hash));
  return hash.value();
}

}  // namespace outrider
