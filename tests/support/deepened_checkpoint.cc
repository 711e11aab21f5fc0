#include "tests/support/deepened_checkpoint.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "common/base/input_file.h"
#include "common/model/mapped_file.h"
#include "common/model/safetensors.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

constexpr char kWeights[] = "model.safetensors";
constexpr char kConfig[] = "config.json";
constexpr size_t kConfigBytes = 1 << 20;

std::string LayerPrefix(int layer) { return "model.layers." + std::to_string(layer) + "."; }

bool WritesToResidual(const std::string& name) {
  return name.find(".o_proj.") != std::string::npos ||
         name.find(".down_proj.") != std::string::npos;
}

StoredTensor Stored(const SafetensorsEntry& entry) {
  return {entry.dtype, entry.shape,
          std::string(reinterpret_cast<const char*>(entry.bytes.data()), entry.bytes.size())};
}

Status CopyOthers(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failure;
  std::filesystem::create_directories(to, failure);
  if (failure) return Internal(to.string() + ": " + failure.message());
  for (const auto& entry : std::filesystem::directory_iterator(from, failure)) {
    const std::filesystem::path name = entry.path().filename();
    if (!entry.is_regular_file() || name == kWeights || name == kConfig) continue;
    std::filesystem::copy_file(entry.path(), to / name,
                               std::filesystem::copy_options::overwrite_existing, failure);
    if (failure) return Internal((to / name).string() + ": " + failure.message());
  }
  return failure ? Internal(from.string() + ": " + failure.message()) : Status();
}

}  // namespace

Status DeepenCheckpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                        int layers) {
  if (layers < 0) return InvalidArgument("layers is " + std::to_string(layers));
  OUTRIDER_ASSIGN(const std::string text, ReadFile(from / kConfig, kConfigBytes));
  nlohmann::json config = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const int held = config.is_object() ? config.value("num_hidden_layers", 0) : 0;
  if (held < 1) return InvalidArgument((from / kConfig).string() + ": num_hidden_layers");
  OUTRIDER_ASSIGN(const MappedFile file, MappedFile::Open(from / kWeights));
  OUTRIDER_ASSIGN(const std::vector<SafetensorsEntry> entries,
                  ParseSafetensors(file.bytes(), (from / kWeights).string()));

  std::map<std::string, StoredTensor> tensors;
  for (const SafetensorsEntry& entry : entries) tensors[entry.name] = Stored(entry);
  for (int layer = held; layer < held + layers; ++layer) {
    const std::string source = LayerPrefix(layer % held);
    for (const SafetensorsEntry& entry : entries) {
      if (entry.name.rfind(source, 0) != 0) continue;
      StoredTensor copy = Stored(entry);
      if (WritesToResidual(entry.name)) copy.bytes.assign(copy.bytes.size(), '\0');
      tensors[LayerPrefix(layer) + entry.name.substr(source.size())] = std::move(copy);
    }
  }
  config["num_hidden_layers"] = held + layers;
  OUTRIDER_TRY(CopyOthers(from, to));
  OUTRIDER_TRY(WriteFile(to / kConfig, config.dump(2)));
  return WriteSafetensors(to / kWeights, tensors);
}

}  // namespace outrider
