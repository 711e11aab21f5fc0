#include "common/model/config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/base/printable.h"
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
constexpr int kMaxPositions = 1 << 24;
constexpr size_t kMaxFileMebibytes = 4;

// The fields of one JSON object. A null counts as absent, as in Transformers.
class Fields {
 public:
  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}

  const Json* Find(const char* name) const {
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }

  Status Bad(const char* name, const std::string& why) const {
    return InvalidArgument(where_ + ": " + name + " " + why);
  }
  Status Unsupported(const char* name, const Json& value) const {
    // dump() cannot throw here: the parser has refused strings that are not UTF-8.
    return Unimplemented(where_ + ": " + name + " " + Printable(value.dump()) +
                         " is not supported");
  }

  Status Integer(const char* name, int64_t low, int64_t high, int* out) const {
    const Json* value = Find(name);
    if (value == nullptr) return Bad(name, "is missing");
    return CheckInteger(name, *value, low, high, out);
  }
  Status Integer(const char* name, int64_t low, int64_t high, int fallback, int* out) const {
    *out = fallback;
    const Json* value = Find(name);
    return value == nullptr ? Status() : CheckInteger(name, *value, low, high, out);
  }
  Status CheckInteger(const char* name, const Json& value, int64_t low, int64_t high,
                      int* out) const {
    const bool huge = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
    if (!value.is_number_integer() || huge || value.get<int64_t>() < low ||
        value.get<int64_t>() > high) {
      return Bad(name, "is " + Printable(value.dump()) + ", not an integer of " +
                           std::to_string(low) + " to " + std::to_string(high));
    }
    *out = static_cast<int>(value.get<int64_t>());
    return Status();
  }

  // A positive number below `limit`.
  Status Positive(const char* name, double limit, float* out) const {
    const Json* value = Find(name);
    if (value == nullptr) return Bad(name, "is missing");
    const double number = value->is_number() ? value->get<double>() : NAN;
    // The last test refuses what is positive as a double and zero as a float.
    if (!(number > 0 && number<limit&& static_cast<float>(number)> 0)) {
      return Bad(name, "is " + Printable(value->dump()) + ", not a number above 0 and below " +
                           std::to_string(limit));
    }
    *out = static_cast<float>(number);
    return Status();
  }

  Status Boolean(const char* name, bool fallback, bool* out) const {
    *out = fallback;
    const Json* value = Find(name);
    if (value == nullptr) return Status();
    if (!value->is_boolean()) return Bad(name, "is not true or false");
    *out = value->get<bool>();
    return Status();
  }
  // Refuses an option that is switched on.
  Status MustBeOff(const char* name) const {
    bool on = false;
    OUTRIDER_TRY(Boolean(name, false, &on));
    return on ? Unsupported(name, *Find(name)) : Status();
  }

  const std::string& where() const { return where_; }

 private:
  const Json& object_;
  std::string where_;
};

Status ReadArchitecture(const Fields& fields, ModelConfig* config) {
  const Json* names = fields.Find("architectures");
  if (names == nullptr || !names->is_array() || names->size() != 1 || !(*names)[0].is_string()) {
    return fields.Bad("architectures", "is not a list of one name");
  }
  config->architecture = (*names)[0].get<std::string>();
  std::string all;
  for (const char* known :
       {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}) {
    if (config->architecture == known) return Status();
    all += (all.empty() ? "" : ", ") + std::string(known);
  }
  return Unimplemented(fields.Unsupported("architecture", (*names)[0]).message() +
                       "; these are: " + all);
}

Status RefuseUnsupported(const Fields& fields, const ModelConfig& config) {
  for (const char* name : {"hidden_act", "hidden_activation"}) {
    const Json* value = fields.Find(name);
    if (value != nullptr && *value != "silu") return fields.Unsupported(name, *value);
  }
  if (const Json* value = fields.Find("quantization_config")) {
    const Json* method = nullptr;
    if (value->is_object() && value->contains("quant_method")) method = &(*value)["quant_method"];
    return fields.Unsupported("quantization_config", method != nullptr ? *method : *value);
  }
  // Qwen2's q, k and v always have biases and its o never has one, whatever this field says.
  if (config.architecture != "Qwen2ForCausalLM") OUTRIDER_TRY(fields.MustBeOff("attention_bias"));
  OUTRIDER_TRY(fields.MustBeOff("mlp_bias"));
  const Json* rotated = fields.Find("partial_rotary_factor");
  if (rotated != nullptr && *rotated != 1) {
    return fields.Unsupported("partial_rotary_factor", *rotated);
  }
  return Status();
}

Status ReadSizes(const Fields& fields, ModelConfig* config) {
  OUTRIDER_TRY(fields.Integer("vocab_size", 1, kMaxVocabulary, &config->vocab_size));
  OUTRIDER_TRY(fields.Integer("hidden_size", 1, kMaxHidden, &config->hidden_size));
  OUTRIDER_TRY(
      fields.Integer("intermediate_size", 1, kMaxIntermediate, &config->intermediate_size));
  OUTRIDER_TRY(fields.Integer("num_hidden_layers", 1, kMaxLayers, &config->num_layers));
  OUTRIDER_TRY(fields.Integer("num_attention_heads", 1, kMaxHeads, &config->num_heads));
  OUTRIDER_TRY(fields.Integer("num_key_value_heads", 1, kMaxHeads, config->num_heads,
                              &config->num_kv_heads));
  if (config->num_heads % config->num_kv_heads != 0) {
    return fields.Bad("num_key_value_heads", "does not divide num_attention_heads");
  }
  // Transformers' own default of Qwen3 is 128, of the others hidden_size / num_attention_heads.
  const bool qwen3 = config->architecture == "Qwen3ForCausalLM";
  if (!qwen3 && fields.Find("head_dim") == nullptr &&
      config->hidden_size % config->num_heads != 0) {
    return fields.Bad("hidden_size", "is no multiple of num_attention_heads");
  }
  const int usual_head_dim = qwen3 ? 128 : config->hidden_size / config->num_heads;
  OUTRIDER_TRY(fields.Integer("head_dim", 2, kMaxHeadDim, usual_head_dim, &config->head_dim));
  if (config->head_dim < 2 || config->head_dim > kMaxHeadDim || config->head_dim % 2 != 0) {
    return fields.Bad("head_dim", "is " + std::to_string(config->head_dim) +
                                      ", not an even number of 2 to " +
                                      std::to_string(kMaxHeadDim));
  }
  return fields.Integer("max_position_embeddings", 1, kMaxPositions,
                        &config->max_position_embeddings);
}

// The "llama3" fields of a rope object.
Status ReadLlama3Scaling(const Fields& fields, ModelConfig* config) {
  constexpr double kMaxFactor = 65536;
  Llama3RopeScaling& scaling = config->rope_scaling;
  OUTRIDER_TRY(fields.Positive("factor", kMaxFactor, &scaling.factor));
  OUTRIDER_TRY(fields.Positive("low_freq_factor", kMaxFactor, &scaling.low_freq_factor));
  OUTRIDER_TRY(fields.Positive("high_freq_factor", kMaxFactor, &scaling.high_freq_factor));
  OUTRIDER_TRY(fields.Integer("original_max_position_embeddings", 1, kMaxPositions,
                              &scaling.original_max_position_embeddings));
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    return fields.Bad("low_freq_factor", "is not below high_freq_factor");
  }
  config->has_rope_scaling = true;
  return Status();
}

// Until Transformers 4: "rope_theta" beside "rope_scaling"; from 5 on both within
// "rope_parameters".
Status ReadRope(const Fields& fields, ModelConfig* config) {
  constexpr double kMaxTheta = 1e12;
  if (fields.Find("rope_theta") != nullptr) {
    OUTRIDER_TRY(fields.Positive("rope_theta", kMaxTheta, &config->rope_theta));
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* value = fields.Find(name);
    if (value == nullptr) continue;
    if (!value->is_object()) return fields.Bad(name, "is not an object");
    const Fields rope(*value, fields.where() + ": " + name);
    if (rope.Find("rope_theta") != nullptr) {
      OUTRIDER_TRY(rope.Positive("rope_theta", kMaxTheta, &config->rope_theta));
    }
    const Json* rotated = rope.Find("partial_rotary_factor");
    if (rotated != nullptr && *rotated != 1) {
      return rope.Unsupported("partial_rotary_factor", *rotated);
    }
    const Json* type = rope.Find("rope_type");
    if (type == nullptr) type = rope.Find("type");
    if (type == nullptr && std::string_view(name) == "rope_scaling") {
      return rope.Bad("rope_type", "is missing");
    }
    if (type == nullptr || *type == "default") continue;
    if (*type != "llama3") return rope.Unsupported("rope_type", *type);
    OUTRIDER_TRY(ReadLlama3Scaling(rope, config));
  }
  return Status();
}

// One window for all layers, or none.
Status ReadSlidingWindow(const Fields& fields, ModelConfig* config) {
  const bool mistral = config->architecture == "MistralForCausalLM";
  if (mistral) {
    OUTRIDER_TRY(fields.Integer("sliding_window", 1, kMaxPositions, 0, &config->sliding_window));
  } else {
    OUTRIDER_TRY(fields.MustBeOff("use_sliding_window"));
  }
  const Json* layer_types = fields.Find("layer_types");
  if (layer_types == nullptr) return Status();
  if (!layer_types->is_array()) return fields.Bad("layer_types", "is not a list");
  const char* expected = config->sliding_window > 0 ? "sliding_attention" : "full_attention";
  for (const Json& type : *layer_types) {
    if (type != expected) return fields.Unsupported("layer_types", type);
  }
  return Status();
}

// "eos_token_id" is a number or a list of them.
Status AddEosTokens(const Fields& fields, ModelConfig* config) {
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
  const Fields fields(json, path.string());

  ModelConfig config;
  const std::filesystem::path plain = directory.lexically_normal();
  config.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  OUTRIDER_TRY(ReadArchitecture(fields, &config));
  OUTRIDER_TRY(RefuseUnsupported(fields, config));
  OUTRIDER_TRY(ReadSizes(fields, &config));
  OUTRIDER_TRY(fields.Positive("rms_norm_eps", 1.0, &config.rms_norm_eps));
  OUTRIDER_TRY(ReadRope(fields, &config));
  OUTRIDER_TRY(ReadSlidingWindow(fields, &config));
  config.qkv_bias = config.architecture == "Qwen2ForCausalLM";
  config.qk_norm = config.architecture == "Qwen3ForCausalLM";
  OUTRIDER_TRY(fields.Boolean("tie_word_embeddings", false, &config.tied_embeddings));
  OUTRIDER_TRY(fields.Integer("bos_token_id", 0, config.vocab_size - 1, -1, &config.bos_token_id));
  OUTRIDER_TRY(AddEosTokens(fields, &config));

  const std::filesystem::path generation = directory / "generation_config.json";
  std::error_code ignored;
  if (std::filesystem::exists(generation, ignored)) {
    OUTRIDER_ASSIGN(const Json more, ReadJsonObject(generation, kMaxFileMebibytes));
    OUTRIDER_TRY(AddEosTokens(Fields(more, generation.string()), &config));
  }
  return config;
}

}  // namespace outrider
