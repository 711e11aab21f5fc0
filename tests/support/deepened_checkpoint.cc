#include "tests/support/deepened_checkpoint.h"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/base/input_file.h"
#include "tests/support/checkpoint_folder.h"

namespace outrider {
namespace {

constexpr size_t kConfigBytes = 1 << 20;

std::string LayerPrefix(int layer) { return "model.layers." + std::to_string(layer) + "."; }

// Excludes the scales of 8-bit ones, which must not be 0.
bool WritesToResidual(const std::string& name) {
  return name.ends_with(".o_proj.weight") || name.ends_with(".down_proj.weight");
}

}  // namespace

Status DeepenCheckpoint(const std::filesystem::path& from, const std::filesystem::path& to,
                        int layers) {
  if (layers < 0) return InvalidArgument("layers is " + std::to_string(layers));
  OUTRIDER_ASSIGN(const std::string text, ReadFile(from / kConfigFile, kConfigBytes));
  nlohmann::json config = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const int held = config.is_object() ? config.value("num_hidden_layers", 0) : 0;
  if (held < 1) return InvalidArgument((from / kConfigFile).string() + ": num_hidden_layers");
  OUTRIDER_ASSIGN(const auto original, ReadTensors(from));

  std::map<std::string, StoredTensor> tensors = original;
  for (int layer = held; layer < held + layers; ++layer) {
    const std::string source = LayerPrefix(layer % held);
    for (const auto& [name, tensor] : original) {
      if (name.rfind(source, 0) != 0) continue;
      StoredTensor copy = tensor;
      if (WritesToResidual(name)) copy.bytes.assign(copy.bytes.size(), '\0');
      tensors[LayerPrefix(layer) + name.substr(source.size())] = std::move(copy);
    }
  }
  config["num_hidden_layers"] = held + layers;
  OUTRIDER_TRY(CopyOtherFiles(from, to));
  OUTRIDER_TRY(WriteFile(to / kConfigFile, config.dump(2)));
  return WriteSafetensors(to / kWeightsFile, tensors);
}

}  // namespace outrider
