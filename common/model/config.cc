#include "common/model/config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/model/architectures/architecture.h"
#include "common/model/config_fields.h"
#include "common/model/json_file.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// Generous for any dense model; they keep products of two sizes far inside of int64 and refuse a
// file that would make us allocate for nothing.
constexpr int kMaxHidden = 1 << 16;
constexpr int kMaxIntermediate = 1 << 19;
constexpr int kMaxLayers = 1024;
constexpr int kMaxHeads = 1024;
constexpr int kMaxHeadDim = 1024;
constexpr size_t kMaxFileMebibytes = 4;

Result<const Architecture*> ReadArchitecture(const ConfigFields& fields) {
  const Json* names = fields.Find("architectures");
  if (names == nullptr || !names->is_array() || names->size() != 1 || !(*names)[0].is_string()) {
    return fields.Bad("architectures", "is not a list of one name");
  }
  const Architecture* found = FindArchitecture((*names)[0].get_ref<const std::string&>());
  if (found != nullptr) return found;
  return Unimplemented(fields.Unsupported("architecture", (*names)[0]).message() +
                       "; these are: " + ArchitectureNames());
}

// What no architecture's file has to look at.
Status RefuseUnsupported(const ConfigFields& fields) {
  if (const Json* value = fields.Find("quantization_config")) {
    const Json* method = nullptr;
    if (value->is_object() && value->contains("quant_method")) method = &(*value)["quant_method"];
    return fields.Unsupported("quantization_config", method != nullptr ? *method : *value);
  }
  OUTRIDER_TRY(fields.MustBeOff("mlp_bias"));
  return fields.MustBe("partial_rotary_factor", 1);
}

Status ReadSizes(const ConfigFields& fields, const Architecture& architecture,
                 ModelConfig* config) {
  OUTRIDER_TRY(fields.Integer("vocab_size", 1, kMaxVocabulary, &config->vocab_size));
  OUTRIDER_TRY(fields.Integer("hidden_size", 1, kMaxHidden, &config->hidden_size));
  OUTRIDER_TRY(
      fields.Integer("intermediate_size", 1, kMaxIntermediate, &config->intermediate_size));
  int layers = 0;
  OUTRIDER_TRY(fields.Integer("num_hidden_layers", 1, kMaxLayers, &layers));
  config->layers.resize(static_cast<size_t>(layers));
  OUTRIDER_TRY(fields.Integer("num_attention_heads", 1, kMaxHeads, &config->num_heads));
  OUTRIDER_TRY(fields.Integer("num_key_value_heads", 1, kMaxHeads, config->num_heads,
                              &config->num_kv_heads));
  if (config->num_heads % config->num_kv_heads != 0) {
    return fields.Bad("num_key_value_heads", "does not divide num_attention_heads");
  }
  int usual_head_dim = architecture.head_dim;
  if (usual_head_dim == 0) {
    if (fields.Find("head_dim") == nullptr && config->hidden_size % config->num_heads != 0) {
      return fields.Bad("hidden_size", "is no multiple of num_attention_heads");
    }
    usual_head_dim = config->hidden_size / config->num_heads;
  }
  OUTRIDER_TRY(fields.Integer("head_dim", 2, kMaxHeadDim, usual_head_dim, &config->head_dim));
  if (config->head_dim < 2 || config->head_dim > kMaxHeadDim || config->head_dim % 2 != 0) {
    return fields.Bad("head_dim", "is " + std::to_string(config->head_dim) +
                                      ", not an even number of 2 to " +
                                      std::to_string(kMaxHeadDim));
  }
  return fields.Integer("max_position_embeddings", 1, kMaxPositions,
                        &config->max_position_embeddings);
}

// "eos_token_id" is a number or a list of them.
Status AddEosTokens(const ConfigFields& fields, ModelConfig* config) {
  const Json* value = fields.Find("eos_token_id");
  if (value == nullptr) return Status();
  const Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json& id : list) {
    TokenId token = -1;
    OUTRIDER_TRY(fields.CheckInteger("eos_token_id", id, 0, config->vocab_size - 1, &token));
    auto& all = config->eos_token_ids;
    if (std::find(all.begin(), all.end(), token) == all.end()) all.push_back(token);
  }
  return Status();
}

}  // namespace

Result<ModelConfig> LoadModelConfig(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "config.json";
  OUTRIDER_ASSIGN(const Json json, ReadJsonObject(path, kMaxFileMebibytes));
  const ConfigFields fields(json, path.string());

  ModelConfig config;
  const std::filesystem::path plain = directory.lexically_normal();
  config.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  OUTRIDER_ASSIGN(const Architecture* architecture, ReadArchitecture(fields));
  config.architecture = architecture->name;
  OUTRIDER_TRY(RefuseUnsupported(fields));
  OUTRIDER_TRY(ReadSizes(fields, *architecture, &config));
  OUTRIDER_TRY(fields.Positive("rms_norm_eps", 1.0, &config.rms_norm_eps));
  OUTRIDER_TRY(architecture->describe(fields, &config));
  // Where the file does not say, the architecture's own default.
  OUTRIDER_TRY(
      fields.Boolean("tie_word_embeddings", config.tied_embeddings, &config.tied_embeddings));
  OUTRIDER_TRY(fields.Integer("bos_token_id", 0, config.vocab_size - 1, -1, &config.bos_token_id));
  OUTRIDER_TRY(AddEosTokens(fields, &config));

  const std::filesystem::path generation = directory / "generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(generation, ignored)) {
    OUTRIDER_ASSIGN(const Json more, ReadJsonObject(generation, kMaxFileMebibytes));
    OUTRIDER_TRY(AddEosTokens(ConfigFields(more, generation.string()), &config));
  }
  return config;
}

}  // namespace outrider
