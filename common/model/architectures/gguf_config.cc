#include "common/model/architectures/gguf_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/printable.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

struct Name {
  std::string_view gguf;  // "attn_q"
  std::string_view checkpoint;
};

constexpr Name kAttentionAndMlp[] = {
    {"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr Name kFused[] = {{"attn_qkv", "self_attn.qkv_proj"},
                           {"attn_output", "self_attn.o_proj"},
                           {"ffn_up", "mlp.gate_up_proj"},
                           {"ffn_down", "mlp.down_proj"}};
// "*" is an expert's number: the tensor has all experts of a layer.
constexpr Name kMixtral[] = {{"attn_q", "self_attn.q_proj"},
                             {"attn_k", "self_attn.k_proj"},
                             {"attn_v", "self_attn.v_proj"},
                             {"attn_output", "self_attn.o_proj"},
                             {"ffn_gate_inp", "block_sparse_moe.gate"},
                             {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
                             {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
                             {"ffn_down_exps", "block_sparse_moe.experts.*.w2"}};
constexpr Name kQwen3Moe[] = {{"attn_q", "self_attn.q_proj"},
                              {"attn_k", "self_attn.k_proj"},
                              {"attn_v", "self_attn.v_proj"},
                              {"attn_output", "self_attn.o_proj"},
                              {"ffn_gate_inp", "mlp.gate"},
                              {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
                              {"ffn_up_exps", "mlp.experts.*.up_proj"},
                              {"ffn_down_exps", "mlp.experts.*.down_proj"}};
constexpr Name kNormsBefore[] = {{"attn_norm", "input_layernorm"},
                                 {"ffn_norm", "post_attention_layernorm"}};
constexpr Name kNormsAfter[] = {{"post_attention_norm", "post_attention_layernorm"},
                                {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Name kNormsAround[] = {{"attn_norm", "input_layernorm"},
                                 {"post_attention_norm", "post_attention_layernorm"},
                                 {"ffn_norm", "pre_feedforward_layernorm"},
                                 {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr Name kQkNorms[] = {{"attn_q_norm", "self_attn.q_norm"},
                             {"attn_k_norm", "self_attn.k_norm"}};
constexpr Name kModel[] = {{"token_embd.weight", "model.embed_tokens.weight"},
                           {"output_norm.weight", "model.norm.weight"},
                           {"output.weight", "lm_head.weight"}};

// Which projections may have biases.
enum class Biases { kNone, kQkv, kAttention, kAll };

struct GgufArchitecture {
  std::string_view name;
  std::string_view checkpoint;  // the name in config.json
  std::span<const Name> projections;
  std::span<const Name> norms;
  bool qk_norms = false;
  bool interleaved = false;  // the rows of q and k
  Biases biases = Biases::kNone;
  bool mixture = false;  // of experts, in every layer
};

constexpr GgufArchitecture kGgufArchitectures[] = {
    {"llama", "LlamaForCausalLM", kAttentionAndMlp, kNormsBefore, false, true, Biases::kAll},
    {"qwen2", "Qwen2ForCausalLM", kAttentionAndMlp, kNormsBefore, false, false, Biases::kQkv},
    {"qwen3", "Qwen3ForCausalLM", kAttentionAndMlp, kNormsBefore, true, false, Biases::kAttention},
    {"gemma2", "Gemma2ForCausalLM", kAttentionAndMlp, kNormsAround, false, false,
     Biases::kAttention},
    {"gemma3", "Gemma3ForCausalLM", kAttentionAndMlp, kNormsAround, true, false,
     Biases::kAttention},
    {"phi3", "Phi3ForCausalLM", kFused, kNormsBefore, false, false, Biases::kNone},
    {"olmo2", "Olmo2ForCausalLM", kAttentionAndMlp, kNormsAfter, true, false, Biases::kAttention},
    {"granite", "GraniteForCausalLM", kAttentionAndMlp, kNormsBefore, false, true, Biases::kAll},
    {"smollm3", "SmolLM3ForCausalLM", kAttentionAndMlp, kNormsBefore, false, true, Biases::kAll},
    {"llama", "MixtralForCausalLM", kMixtral, kNormsBefore, false, true, Biases::kNone,
     /*mixture=*/true},
    {"qwen3moe", "Qwen3MoeForCausalLM", kQwen3Moe, kNormsBefore, true, false, Biases::kNone,
     /*mixture=*/true}};

constexpr char kLongFactors[] = "rope_factors_long.weight";
constexpr char kShortFactors[] = "rope_factors_short.weight";
constexpr char kRopeFactors[] = "rope_freqs.weight";
// For any size; config.cc has the actual limits.
constexpr int64_t kMostOfASize = INT64_C(1) << 31;
constexpr size_t kMostEntries = 1 << 19;  // 36,000 for 94 layers of 128 experts

bool IsGemma(const GgufArchitecture& architecture) {
  return architecture.name.starts_with("gemma");
}

std::string NamesOf(bool mixtures) {
  std::string names;
  for (const GgufArchitecture& known : kGgufArchitectures) {
    if (known.mixture != mixtures) continue;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

Result<const GgufArchitecture*> FindArchitecture(const GgufFile& file) {
  if (file.Has("general.type")) {
    OUTRIDER_ASSIGN(const std::string_view type, file.Text("general.type"));
    if (type != "model") {
      return file.Unsupported("general.type", "is " + Printable(type) + ", not a model");
    }
  }
  if (file.Has("split.count")) {
    OUTRIDER_ASSIGN(const int64_t parts, file.Int("split.count", 0, kMostOfASize));
    if (parts > 1) {
      return file.Unsupported("split.count", "is " + std::to_string(parts) +
                                                 ": the model is in several files; join them with "
                                                 "llama-gguf-split --merge");
    }
  }
  OUTRIDER_ASSIGN(const std::string_view name, file.Text("general.architecture"));
  OUTRIDER_ASSIGN(const std::optional<int64_t> experts,
                  file.MaybeInt(std::string(name) + ".expert_count", 0, kMostOfASize));
  const bool has_experts = experts.value_or(0) > 0;
  for (const GgufArchitecture& known : kGgufArchitectures) {
    if (known.name == name && known.mixture == has_experts) return &known;
  }
  return file.Unsupported(
      "general.architecture",
      "is " + Printable(name) + (has_experts ? " with" : " without") +
          " experts, which is not supported; these are: " + NamesOf(/*mixtures=*/false) +
          "; with experts: " + NamesOf(/*mixtures=*/true));
}

// The name of a layer's tensor: "blk.12.attn_q.weight".
struct LayerName {
  std::string_view layer, stem, suffix;
};

std::optional<LayerName> SplitName(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  const size_t dot = name.find('.'), last = name.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return std::nullopt;
  return LayerName{name.substr(0, dot), name.substr(dot + 1, last - dot - 1), name.substr(last)};
}

bool MayHaveBias(const GgufArchitecture& architecture, std::string_view stem) {
  const bool qkv = stem == "attn_q" || stem == "attn_k" || stem == "attn_v";
  switch (architecture.biases) {
    case Biases::kNone: return false;
    case Biases::kQkv: return qkv;
    case Biases::kAttention: return qkv || stem == "attn_output";
    case Biases::kAll: return true;
  }
  return false;
}

// The part after "model.layers.<n>." of a layer tensor's name; "" if the architecture has no such
// tensor.
std::string CheckpointName(const GgufArchitecture& architecture, const LayerName& name) {
  const auto find = [&](std::span<const Name> names) -> std::string {
    for (const Name& known : names) {
      if (known.gguf == name.stem) return std::string(known.checkpoint) + std::string(name.suffix);
    }
    return "";
  };
  if (name.suffix == ".bias") {
    return MayHaveBias(architecture, name.stem) ? find(architecture.projections) : "";
  }
  if (name.suffix != ".weight") return "";
  std::string found = find(architecture.projections);
  if (found.empty()) found = find(architecture.norms);
  if (found.empty() && architecture.qk_norms) found = find(kQkNorms);
  return found;
}

// A positive number, or the common value of all elements of an array: some files have one number
// per layer.
Result<int64_t> SharedInt(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end() || found->second.type != GgufValue::Type::kArray) {
    return file.Int(key, 1, kMostOfASize);
  }
  OUTRIDER_ASSIGN(const std::vector<int64_t> numbers, file.Ints(key));
  if (numbers.empty() || numbers.front() < 1 || numbers.front() > kMostOfASize) {
    return file.Wrong(key, "must be positive integers");
  }
  for (const int64_t number : numbers) {
    if (number != numbers.front()) return file.Unsupported(key, "differs from layer to layer");
  }
  return numbers.front();
}

// Whether the tensor has RoPE factors, which become part of the config.
bool IsOfConfig(const GgufArchitecture& architecture, std::string_view name) {
  if (architecture.name == "phi3") return name == kLongFactors || name == kShortFactors;
  return name == kRopeFactors && !IsGemma(architecture);
}

struct Heads {
  int64_t q = 0, k = 0;
};

// With an empty name if the architecture has no such tensor.
GgufEntry EntryOf(const GgufArchitecture& architecture, const GgufTensor& tensor, int64_t layers,
                  const Heads& heads) {
  GgufEntry entry = {.name = "", .tensor = tensor};
  for (const Name& known : kModel) {
    if (known.gguf == tensor.name) entry.name = known.checkpoint;
  }
  const std::optional<LayerName> parts = SplitName(tensor.name);
  if (!parts.has_value()) return entry;
  int64_t layer = -1;
  const char* const end = parts->layer.data() + parts->layer.size();
  const bool is_number = std::from_chars(parts->layer.data(), end, layer).ptr == end &&
                         std::to_string(layer) == parts->layer;
  const std::string within = CheckpointName(architecture, *parts);
  if (!is_number || layer < 0 || layer >= layers || within.empty()) return entry;
  entry.name = "model.layers." + std::to_string(layer) + "." + within;
  if (architecture.interleaved && parts->stem == "attn_q") entry.interleaved_heads = heads.q;
  if (architecture.interleaved && parts->stem == "attn_k") entry.interleaved_heads = heads.k;
  return entry;
}

// Adds the entry, or one per expert if it has those of a layer.
Status Add(const GgufFile& file, GgufEntry entry, int64_t experts,
           std::vector<GgufEntry>* entries) {
  const size_t star = entry.name.find('*');
  if (star == std::string::npos) {
    entries->push_back(std::move(entry));
    return Status();
  }
  const GgufTensor& all = entry.tensor;
  if (all.shape.size() != 3 || all.shape[0] != experts) {
    return file.Wrong(all.name, "must have three dimensions, the last of " +
                                    std::to_string(experts) + " experts");
  }
  if (entries->size() + static_cast<size_t>(experts) > kMostEntries) {
    return file.Unsupported(all.name, "is one of too many experts; all layers together may have " +
                                          std::to_string(kMostEntries) + " matrices");
  }
  const size_t each = all.bytes.size() / static_cast<size_t>(experts);
  for (int64_t i = 0; i < experts; ++i) {
    const std::string number = std::to_string(i);
    std::string name = entry.name;
    entries->push_back(
        {.name = name.replace(star, 1, number),
         .tensor = {.name = all.name + ", expert " + number,
                    .type = all.type,
                    .shape = {all.shape[1], all.shape[2]},
                    .bytes = all.bytes.subspan(static_cast<size_t>(i) * each, each)}});
  }
  return Status();
}

// Builds the JSON. Values are copied as they are; missing ones stay absent.
class ConfigWriter {
 public:
  ConfigWriter(const GgufFile& file, const GgufArchitecture& architecture)
      : file_(file), architecture_(architecture) {}

  Result<std::string> Write();

 private:
  std::string Key(std::string_view name) const {
    return std::string(architecture_.name) + "." + std::string(name);
  }
  // The value of a number, a flag or a text, or the common value of all elements of an array.
  Result<Json> Value(const std::string& key) const;
  // Copies the architecture's key `name` to `field`.
  Status Copy(std::string_view name, const char* field);
  Status CheckKeys() const;
  Status WriteSizes();
  Status WriteBiases();
  Status WriteRope();
  Status WriteRopeScaling();
  Status WriteFactors(const char* short_tensor, const char* long_tensor, Json attention_factor);
  Status WriteGemma();
  Status WriteMixture();
  Status WriteEnds();
  bool HasTensor(std::string_view name) const { return file_.Tensor(name) != nullptr; }

  const GgufFile& file_;
  const GgufArchitecture& architecture_;
  Json json_ = Json::object();
  int64_t layers_ = 0, heads_ = 0, hidden_ = 0, head_dim_ = 0;
};

// A 32-bit float as the double with the same shortest decimal form, so that reading it back gives
// the same float.
Json OfFloat(double value) {
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), static_cast<float>(value)).ptr;
  double shortest = value;
  std::from_chars(text.data(), end, shortest);
  return shortest;
}

Result<Json> ConfigWriter::Value(const std::string& key) const {
  const GgufValue& value = file_.metadata().find(key)->second;
  switch (value.type) {
    case GgufValue::Type::kString: {
      OUTRIDER_ASSIGN(const std::string_view text, file_.Text(key));
      return Json(Printable(text));
    }
    case GgufValue::Type::kBool: {
      OUTRIDER_ASSIGN(const bool flag, file_.Bool(key));
      return Json(flag);
    }
    case GgufValue::Type::kFloat32:
    case GgufValue::Type::kFloat64: {
      OUTRIDER_ASSIGN(const double number, file_.Number(key));
      return OfFloat(number);
    }
    case GgufValue::Type::kArray: {
      OUTRIDER_ASSIGN(const int64_t shared, SharedInt(file_, key));
      return Json(shared);
    }
    default: break;
  }
  OUTRIDER_ASSIGN(const int64_t number, file_.Int(key, INT64_MIN, INT64_MAX));
  return Json(number);
}

Status ConfigWriter::Copy(std::string_view name, const char* field) {
  const std::string key = Key(name);
  if (!file_.Has(key)) return Status();
  OUTRIDER_ASSIGN(json_[field], Value(key));
  return Status();
}

// An unknown key of the architecture may change what the model computes.
Status ConfigWriter::CheckKeys() const {
  constexpr std::string_view kKnown[] = {"embedding_length",
                                         "feed_forward_length",
                                         "block_count",
                                         "context_length",
                                         "vocab_size",
                                         "attention.head_count",
                                         "attention.head_count_kv",
                                         "attention.key_length",
                                         "attention.value_length",
                                         "attention.layer_norm_rms_epsilon",
                                         "rope.freq_base",
                                         "rope.dimension_count",
                                         "rope.scaling.type",
                                         "rope.scaling.factor",
                                         "rope.scaling.original_context_length",
                                         "rope.scaling.attn_factor",
                                         "tensor_data_layout"};
  constexpr std::pair<std::string_view, std::string_view> kOwn[] = {
      {"gemma2", "attention.sliding_window"},
      {"gemma2", "attn_logit_softcapping"},
      {"gemma2", "final_logit_softcapping"},
      {"gemma3", "attention.sliding_window"},
      {"gemma3", "attention.sliding_window_pattern"},
      {"gemma3", "final_logit_softcapping"},
      {"gemma3", "rope.freq_base_swa"},
      {"phi3", "attention.sliding_window"},
      {"granite", "attention.scale"},
      {"granite", "embedding_scale"},
      {"granite", "residual_scale"},
      {"granite", "logit_scale"},
      {"qwen3moe", "expert_feed_forward_length"}};
  constexpr std::string_view kOfMixtures[] = {"expert_count", "expert_used_count"};
  const std::span<const std::string_view> more =
      architecture_.mixture ? kOfMixtures : std::span<const std::string_view>();
  const std::string prefix = Key("");
  for (auto pair = file_.metadata().lower_bound(prefix);
       pair != file_.metadata().end() && pair->first.starts_with(prefix); ++pair) {
    const std::string_view name = std::string_view(pair->first).substr(prefix.size());
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown) ||
                       std::find(more.begin(), more.end(), name) != more.end() ||
                       std::any_of(std::begin(kOwn), std::end(kOwn), [&](const auto& own) {
                         return own.first == architecture_.name && own.second == name;
                       });
    if (!known) return file_.Unsupported(pair->first, "is not supported");
  }
  return Status();
}

Status ConfigWriter::WriteSizes() {
  for (const char* name : {"embedding_length", "feed_forward_length", "block_count",
                           "context_length", "attention.head_count"}) {
    if (!file_.Has(Key(name))) return file_.Wrong(Key(name), "is missing");
  }
  const GgufTensor* const table = file_.Tensor("token_embd.weight");
  if (table == nullptr || table->shape.size() != 2) {
    return file_.Wrong("token_embd.weight", "must be there, a matrix of a row for each token");
  }
  json_["vocab_size"] = table->shape[0];
  OUTRIDER_TRY(Copy("embedding_length", "hidden_size"));
  OUTRIDER_TRY(Copy("feed_forward_length", "intermediate_size"));
  OUTRIDER_TRY(Copy("block_count", "num_hidden_layers"));
  OUTRIDER_TRY(Copy("attention.head_count", "num_attention_heads"));
  OUTRIDER_TRY(Copy("attention.head_count_kv", "num_key_value_heads"));
  OUTRIDER_TRY(Copy("context_length", "max_position_embeddings"));
  OUTRIDER_TRY(Copy("attention.layer_norm_rms_epsilon", "rms_norm_eps"));
  OUTRIDER_ASSIGN(hidden_, file_.Int(Key("embedding_length"), 1, kMostOfASize));
  OUTRIDER_ASSIGN(layers_, SharedInt(file_, Key("block_count")));
  OUTRIDER_ASSIGN(heads_, SharedInt(file_, Key("attention.head_count")));
  OUTRIDER_ASSIGN(const auto key_length,
                  file_.MaybeInt(Key("attention.key_length"), 1, kMostOfASize));
  OUTRIDER_ASSIGN(const auto value_length,
                  file_.MaybeInt(Key("attention.value_length"), 1, kMostOfASize));
  head_dim_ = key_length.value_or(hidden_ / heads_);
  if (value_length.value_or(head_dim_) != head_dim_) {
    return file_.Unsupported(Key("attention.value_length"),
                             "is " + std::to_string(*value_length) + ", heads of q and k have " +
                                 std::to_string(head_dim_) + "; both must be the same");
  }
  json_["head_dim"] = head_dim_;
  json_["tie_word_embeddings"] = !HasTensor("output.weight");
  return Status();
}

Status ConfigWriter::WriteBiases() {
  bool attention = false, mlp = false;
  for (const GgufTensor& tensor : file_.tensors()) {
    const auto name = SplitName(tensor.name);
    if (!name.has_value() || name->suffix != ".bias") continue;
    (name->stem.starts_with("attn_") ? attention : mlp) = true;
  }
  if (architecture_.biases != Biases::kQkv) json_["attention_bias"] = attention;
  json_["mlp_bias"] = mlp;
  return Status();
}

Status ConfigWriter::WriteRope() {
  json_["rope_theta"] = architecture_.name == "gemma3" ? 1e6 : 1e4;
  OUTRIDER_TRY(Copy("rope.freq_base", "rope_theta"));
  if (architecture_.name == "gemma3") {
    json_["rope_local_base_freq"] = 1e4;
    OUTRIDER_TRY(Copy("rope.freq_base_swa", "rope_local_base_freq"));
  }
  OUTRIDER_ASSIGN(const auto dims, file_.MaybeInt(Key("rope.dimension_count"), 1, kMostOfASize));
  if (dims.has_value() && *dims != head_dim_) {
    // The rotated neighbours would not correspond to the halves of a head.
    if (architecture_.interleaved || *dims > head_dim_) {
      return file_.Unsupported(
          Key("rope.dimension_count"),
          "is " + std::to_string(*dims) + ", heads have " + std::to_string(head_dim_));
    }
    // Halfway to the next number, so that rounding the product down gives this one.
    json_["partial_rotary_factor"] =
        (static_cast<double>(*dims) + 0.5) / static_cast<double>(head_dim_);
  }
  return WriteRopeScaling();
}

// Factors that divide the frequencies of pairs, as in "longrope". Of the two lists the second is
// for contexts beyond the original one.
Status ConfigWriter::WriteFactors(const char* short_tensor, const char* long_tensor,
                                  Json attention_factor) {
  Json scaling = {{"type", "longrope"}};
  for (const auto& [field, name] :
       {std::pair("short_factor", short_tensor), std::pair("long_factor", long_tensor)}) {
    const GgufTensor* const tensor = file_.Tensor(name);
    if (tensor == nullptr) return file_.Wrong(name, "is missing");
    if (tensor->type != GgmlType::kF32 || tensor->shape.size() != 1) {
      return file_.Wrong(name, "must be a list of F32 numbers");
    }
    std::vector<float> factors(tensor->bytes.size() / sizeof(float));
    std::copy_n(tensor->bytes.data(), tensor->bytes.size(),
                reinterpret_cast<std::byte*>(factors.data()));
    if (!std::all_of(factors.begin(), factors.end(), [](float f) { return std::isfinite(f); })) {
      return file_.Wrong(name, "has a number that is not finite");
    }
    scaling[field] = factors;
  }
  scaling["attention_factor"] = std::move(attention_factor);
  json_["rope_scaling"] = std::move(scaling);
  return Status();
}

Status ConfigWriter::WriteRopeScaling() {
  const std::string type_key = Key("rope.scaling.type");
  const std::string factor_key = Key("rope.scaling.attn_factor");
  std::string_view type = "none";
  if (file_.Has(type_key)) {
    OUTRIDER_ASSIGN(type, file_.Text(type_key));
  }
  if (architecture_.name == "phi3" && (HasTensor(kLongFactors) || HasTensor(kShortFactors))) {
    if (type != "none" && type != "longrope") {
      return file_.Unsupported(type_key, "is " + Printable(type) + " beside factors of LongRoPE");
    }
    OUTRIDER_TRY(Copy("rope.scaling.original_context_length", "original_max_position_embeddings"));
    Json factor;
    if (file_.Has(factor_key)) {
      OUTRIDER_ASSIGN(factor, Value(factor_key));
    }
    return WriteFactors(kShortFactors, kLongFactors, std::move(factor));
  }
  if (file_.Has(factor_key)) {
    OUTRIDER_ASSIGN(const double factor, file_.Number(factor_key));
    if (factor != 1) return file_.Unsupported(factor_key, "is not supported here");
  }
  if (HasTensor(kRopeFactors)) {
    if (type != "none") {
      return file_.Unsupported(type_key, "is " + Printable(type) + " beside " + kRopeFactors);
    }
    json_["original_max_position_embeddings"] = json_["max_position_embeddings"];
    return WriteFactors(kRopeFactors, kRopeFactors, 1.0);
  }
  if (type == "none") return Status();
  if (type != "linear" && type != "yarn") {
    return file_.Unsupported(type_key, "is " + Printable(type) +
                                           ", which is not supported; these are: none, linear, "
                                           "yarn, and factors as tensors");
  }
  Json scaling = {{"type", type}};
  if (!file_.Has(Key("rope.scaling.factor"))) {
    return file_.Wrong(Key("rope.scaling.factor"), "is missing");
  }
  OUTRIDER_ASSIGN(scaling["factor"], Value(Key("rope.scaling.factor")));
  const std::string original = Key("rope.scaling.original_context_length");
  if (type == "yarn" && file_.Has(original)) {
    OUTRIDER_ASSIGN(scaling["original_max_position_embeddings"], Value(original));
  }
  json_["rope_scaling"] = std::move(scaling);
  return Status();
}

// For missing values, uses those of llama.cpp: the score scale, and windows in every other layer
// (Gemma 2) or in five of six.
Status ConfigWriter::WriteGemma() {
  if (!file_.Has(Key("attention.sliding_window"))) {
    return file_.Wrong(Key("attention.sliding_window"), "is missing");
  }
  OUTRIDER_TRY(Copy("attention.sliding_window", "sliding_window"));
  const bool is_gemma3 = architecture_.name == "gemma3";
  if (is_gemma3) {
    json_["final_logit_softcapping"] = nullptr;
    const std::string pattern = Key("attention.sliding_window_pattern");
    if (file_.Has(pattern)) {
      OUTRIDER_ASSIGN(json_["sliding_window_pattern"], file_.Int(pattern, 1, kMostOfASize));
    }
  } else {
    OUTRIDER_TRY(Copy("attn_logit_softcapping", "attn_logit_softcapping"));
  }
  OUTRIDER_TRY(Copy("final_logit_softcapping", "final_logit_softcapping"));
  // The models of 27 billion parameters, which are recognised by their number of layers.
  const bool is_27b = layers_ == (is_gemma3 ? 62 : 46);
  json_["query_pre_attn_scalar"] = is_27b ? hidden_ / heads_ : head_dim_;
  // Published checkpoints are in bf16, to which the scale of embeddings is rounded.
  json_["torch_dtype"] = "bfloat16";
  return Status();
}

// llama.cpp has a mixture in every layer, and normalises the weights of a row's experts to sum to
// 1.
Status ConfigWriter::WriteMixture() {
  const bool is_mixtral = architecture_.name == "llama";
  const char* size = is_mixtral ? "feed_forward_length" : "expert_feed_forward_length";
  for (const char* name : {"expert_used_count", size}) {
    if (!file_.Has(Key(name))) return file_.Wrong(Key(name), "is missing");
  }
  OUTRIDER_TRY(Copy("expert_count", is_mixtral ? "num_local_experts" : "num_experts"));
  OUTRIDER_TRY(Copy("expert_used_count", "num_experts_per_tok"));
  if (is_mixtral) return Status();
  json_["norm_topk_prob"] = true;
  return Copy(size, "moe_intermediate_size");
}

Status ConfigWriter::WriteEnds() {
  Json ends = Json::array();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    OUTRIDER_ASSIGN(const auto id, file_.MaybeToken(key, kMostOfASize));
    if (id.has_value()) ends.push_back(*id);
  }
  json_["eos_token_id"] = std::move(ends);
  return Status();
}

Result<std::string> ConfigWriter::Write() {
  OUTRIDER_TRY(CheckKeys());
  json_["architectures"] = {architecture_.checkpoint};
  OUTRIDER_TRY(WriteSizes());
  OUTRIDER_TRY(WriteBiases());
  OUTRIDER_TRY(WriteRope());
  if (IsGemma(architecture_)) OUTRIDER_TRY(WriteGemma());
  if (architecture_.mixture) OUTRIDER_TRY(WriteMixture());
  if (architecture_.name == "granite") {
    OUTRIDER_TRY(Copy("attention.scale", "attention_multiplier"));
    OUTRIDER_TRY(Copy("embedding_scale", "embedding_multiplier"));
    OUTRIDER_TRY(Copy("residual_scale", "residual_multiplier"));
    OUTRIDER_TRY(Copy("logit_scale", "logits_scaling"));
  }
  if (architecture_.name == "phi3") {
    OUTRIDER_TRY(Copy("attention.sliding_window", "sliding_window"));
    // llama.cpp writes 0 for models without a window.
    if (json_.contains("sliding_window") && json_["sliding_window"] == 0) {
      json_["sliding_window"] = nullptr;
    }
  }
  OUTRIDER_TRY(WriteEnds());
  return json_.dump();
}

}  // namespace

Result<std::string> GgufConfigJson(const GgufFile& file) {
  OUTRIDER_ASSIGN(const GgufArchitecture* architecture, FindArchitecture(file));
  OUTRIDER_TRY(GgufEntries(file).status());
  return ConfigWriter(file, *architecture).Write();
}

Result<std::vector<GgufEntry>> GgufEntries(const GgufFile& file) {
  OUTRIDER_ASSIGN(const GgufArchitecture* architecture, FindArchitecture(file));
  const std::string prefix = std::string(architecture->name) + ".";
  OUTRIDER_ASSIGN(const int64_t layers, SharedInt(file, prefix + "block_count"));
  Heads heads;
  OUTRIDER_ASSIGN(heads.q, SharedInt(file, prefix + "attention.head_count"));
  heads.k = heads.q;
  if (const std::string key = prefix + "attention.head_count_kv"; file.Has(key)) {
    OUTRIDER_ASSIGN(heads.k, SharedInt(file, key));
  }
  int64_t experts = 0;
  if (architecture->mixture) {
    OUTRIDER_ASSIGN(experts, file.Int(prefix + "expert_count", 1, kMostOfASize));
  }
  std::vector<GgufEntry> entries;
  for (const GgufTensor& tensor : file.tensors()) {
    if (IsOfConfig(*architecture, tensor.name)) continue;
    GgufEntry entry = EntryOf(*architecture, tensor, layers, heads);
    if (entry.name.empty()) {
      return file.Unsupported(tensor.name, "is a tensor that " + std::string(architecture->name) +
                                               " models of " + std::to_string(layers) +
                                               " layers do not have here");
    }
    OUTRIDER_TRY(Add(file, std::move(entry), experts, &entries));
  }
  return entries;
}

}  // namespace outrider
