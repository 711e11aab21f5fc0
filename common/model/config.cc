#include "common/model/config.h"

#include <algorithm>

#include "common/gguf/gguf_file.h"
#include "common/json/json.h"
#include "common/model/architectures/architecture.h"
#include "common/model/architectures/gguf_config.h"
#include "common/model/config_fields.h"

namespace outrider {
namespace {

// Generous for any dense model; they keep the product of two sizes far within int64 and reject a
// file that would cause useless allocations.
constexpr int kMaxHidden = 1 << 16;
constexpr int kMaxIntermediate = 1 << 19;
constexpr int kMaxLayers = 1024;
constexpr int kMaxHeads = 1024;
constexpr int kMaxHeadDim = 1024;
constexpr size_t kMaxFileBytes = 4 << 20;

Result<const Architecture*> ReadArchitecture(const JsonValue& names) {
  if (names.size() != 1 || !names[0].is_string()) return names.Wrong("a list of one name");
  const Architecture* found = FindArchitecture(names[0].text());
  if (found != nullptr) return found;
  if (names[0].Is("Gemma3ForConditionalGeneration")) {
    return names[0].Unsupported("; its text model alone, saved as Gemma3ForCausalLM, is");
  }
  return names[0].Unsupported("; these are: " + ArchitectureNames());
}

Status ReadSizes(const JsonValue& json, const Architecture& architecture, ModelConfig* config) {
  OUTRIDER_ASSIGN(config->vocab_size, json["vocab_size"].Int(1, kMaxVocabulary));
  OUTRIDER_ASSIGN(config->hidden_size, json["hidden_size"].Int(1, kMaxHidden));
  OUTRIDER_ASSIGN(config->intermediate_size, json["intermediate_size"].Int(1, kMaxIntermediate));
  OUTRIDER_ASSIGN(const int layers, json["num_hidden_layers"].Int(1, kMaxLayers));
  config->layers.resize(static_cast<size_t>(layers));
  OUTRIDER_ASSIGN(config->num_heads, json["num_attention_heads"].Int(1, kMaxHeads));
  config->num_kv_heads = config->num_heads;
  OUTRIDER_TRY(json["num_key_value_heads"].Read(&config->num_kv_heads, 1, kMaxHeads));
  if (config->num_heads % config->num_kv_heads != 0) {
    return json["num_key_value_heads"].Wrong("a divisor of num_attention_heads, " +
                                             std::to_string(config->num_heads));
  }
  config->head_dim = architecture.head_dim;
  const JsonValue head_dim = json["head_dim"];
  if (head_dim.is_null() && config->head_dim == 0) {
    if (config->hidden_size % config->num_heads != 0) {
      return json["hidden_size"].Wrong("a multiple of num_attention_heads, " +
                                       std::to_string(config->num_heads));
    }
    config->head_dim = config->hidden_size / config->num_heads;
  }
  OUTRIDER_TRY(head_dim.Read(&config->head_dim));
  if (config->head_dim < 2 || config->head_dim > kMaxHeadDim || config->head_dim % 2 != 0) {
    return InvalidArgument(head_dim.path() + " is " + std::to_string(config->head_dim) +
                           ", must be an even number from 2 to " + std::to_string(kMaxHeadDim));
  }
  config->max_position_embeddings = architecture.max_position_embeddings;
  return json["max_position_embeddings"].Read(&config->max_position_embeddings, 1, kMaxPositions);
}

Status ReadNormEps(const JsonValue& field, const Architecture& architecture, ModelConfig* config) {
  config->rms_norm_eps = architecture.rms_norm_eps;
  return field.is_null() ? Status() : ReadPositive(field, 1.0, &config->rms_norm_eps);
}

// MXFP4 is supported only for stacked experts.
Status CheckMxfp4(const JsonValue& quantization, const ModelConfig& config) {
  if (config.quantization.layout != Quantization::Layout::kMxfp4) return Status();
  for (const LayerDescription& layer : config.layers) {
    if (layer.mlp.mixture && layer.mlp.mixture->stacked) return Status();
  }
  return quantization["quant_method"].Unsupported(" for " + config.architecture);
}

// "eos_token_id" is a number or a list of numbers; -1 means none.
Status AddEosTokens(const JsonValue& value, ModelConfig* config) {
  if (value.is_null()) return Status();
  for (size_t i = 0; i < (value.is_array() ? value.size() : 1); ++i) {
    OUTRIDER_ASSIGN(const TokenId token,
                    (value.is_array() ? value[i] : value).Int(-1, config->vocab_size - 1));
    if (token < 0) continue;
    auto& all = config->eos_token_ids;
    if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
  }
  return Status();
}

// Builds the config from config.json, or from a GGUF file's metadata in that form. `directory`
// gives the model's name.
Result<ModelConfig> Describe(const JsonValue& json, const std::filesystem::path& directory,
                             bool is_gguf) {
  ModelConfig config;
  const std::filesystem::path plain = directory.lexically_normal();
  config.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  OUTRIDER_ASSIGN(const Architecture* architecture, ReadArchitecture(json["architectures"]));
  config.architecture = architecture->name;
  OUTRIDER_ASSIGN(config.quantization, ReadQuantization(json["quantization_config"]));
  if (is_gguf) config.quantization.layout = Quantization::Layout::kGguf;
  OUTRIDER_TRY(ReadSizes(json, *architecture, &config));
  OUTRIDER_TRY(ReadNormEps(json["rms_norm_eps"], *architecture, &config));
  OUTRIDER_TRY(architecture->describe(json, &config));
  OUTRIDER_TRY(CheckMxfp4(json["quantization_config"], config));
  // If the field is missing, the architecture's default remains.
  OUTRIDER_TRY(json["tie_word_embeddings"].Read(&config.tied_embeddings));
  OUTRIDER_TRY(AddEosTokens(json["eos_token_id"], &config));
  return config;
}

// The metadata of a GGUF file is first translated to config.json.
Result<ModelConfig> LoadGgufConfig(const std::filesystem::path& path,
                                   const std::filesystem::path& directory) {
  OUTRIDER_ASSIGN(const GgufFile file, GgufFile::Open(path));
  OUTRIDER_ASSIGN(const std::string text, GgufConfigJson(file));
  OUTRIDER_ASSIGN(const JsonValue json, ParseJsonObject(text, path.string()));
  Result<ModelConfig> config = Describe(json, directory, /*is_gguf=*/true);
  if (!config.ok()) return config.status().Annotate(path.string() + " (as config.json)");
  if (path == directory) config->name = path.stem().string();
  config->norm_gain_offset = 0;  // the conversion has already added it to the gains
  return config;
}

}  // namespace

Result<ModelConfig> LoadModelConfig(const std::filesystem::path& directory) {
  if (const auto gguf = FindGgufModel(directory); gguf.has_value()) {
    return LoadGgufConfig(*gguf, directory);
  }
  OUTRIDER_ASSIGN(const JsonValue json,
                  ReadJsonObject(directory / "config.json", {.bytes = kMaxFileBytes}));
  OUTRIDER_ASSIGN(ModelConfig config, Describe(json, directory, /*is_gguf=*/false));
  const std::filesystem::path generation = directory / "generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(generation, ignored)) {
    OUTRIDER_ASSIGN(const JsonValue more, ReadJsonObject(generation, {.bytes = kMaxFileBytes}));
    OUTRIDER_TRY(AddEosTokens(more["eos_token_id"], &config));
  }
  return config;
}

}  // namespace outrider
