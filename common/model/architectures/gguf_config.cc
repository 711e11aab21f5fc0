#include "common/model/architectures/gguf_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/all_finite.h"
#include "common/base/printable.h"
#include "common/model/architectures/gguf_architecture.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;

// No head has more (common/model/config.cc).
constexpr int64_t kMostRopeDims = 1024;

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
  Status WriteGptOss();
  Status WriteMixture();
  Status WriteEnds();
  bool HasTensor(std::string_view name) const { return file_.Tensor(name) != nullptr; }

  const GgufFile& file_;
  const GgufArchitecture& architecture_;
  Json json_ = Json::object();
  int64_t layers_ = 0, heads_ = 0, hidden_ = 0, head_dim_ = 0, rope_dims_ = 0;
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
      OUTRIDER_ASSIGN(const int64_t shared, SharedGgufInt(file_, key));
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
                                         "rope.scaling.yarn_beta_fast",
                                         "rope.scaling.yarn_beta_slow",
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
      {"qwen3moe", "expert_feed_forward_length"},
      {"gpt-oss", "expert_feed_forward_length"},
      {"gpt-oss", "attention.sliding_window"}};
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
  OUTRIDER_ASSIGN(hidden_, file_.Int(Key("embedding_length"), 1, kMostOfAGgufSize));
  OUTRIDER_ASSIGN(layers_, SharedGgufInt(file_, Key("block_count")));
  OUTRIDER_ASSIGN(heads_, SharedGgufInt(file_, Key("attention.head_count")));
  OUTRIDER_ASSIGN(const auto key_length,
                  file_.MaybeInt(Key("attention.key_length"), 1, kMostOfAGgufSize));
  OUTRIDER_ASSIGN(const auto value_length,
                  file_.MaybeInt(Key("attention.value_length"), 1, kMostOfAGgufSize));
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
    const auto name = SplitGgufName(tensor.name);
    if (!name.has_value() || name->suffix != ".bias") continue;
    (name->stem.starts_with("attn_") ? attention : mlp) = true;
  }
  if (architecture_.biases != GgufBiases::kQkv) json_["attention_bias"] = attention;
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
  OUTRIDER_ASSIGN(const auto dims,
                  file_.MaybeInt(Key("rope.dimension_count"), 1, kMostOfAGgufSize));
  rope_dims_ = dims.value_or(head_dim_);
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
  const int64_t pairs = std::min(rope_dims_, kMostRopeDims) / 2;
  for (const auto& [field, name] :
       {std::pair("short_factor", short_tensor), std::pair("long_factor", long_tensor)}) {
    const GgufTensor* const tensor = file_.Tensor(name);
    if (tensor == nullptr) return file_.Wrong(name, "is missing");
    if (tensor->type != GgmlType::kF32 || tensor->shape.size() != 1) {
      return file_.Wrong(name, "must be a list of F32 numbers");
    }
    // Before they are copied, because a number takes many times its bytes in JSON.
    if (tensor->shape[0] != pairs) {
      return file_.Wrong(name, "has " + std::to_string(tensor->shape[0]) + " factors, must have " +
                                   std::to_string(pairs) + ", one for two rotated dimensions");
    }
    std::vector<float> factors(tensor->bytes.size() / sizeof(float));
    std::copy_n(tensor->bytes.data(), tensor->bytes.size(),
                reinterpret_cast<std::byte*>(factors.data()));
    if (!AllFinite(factors)) return file_.Wrong(name, "has a number that is not finite");
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
  for (const char* beta : {"beta_fast", "beta_slow"}) {
    const std::string key = Key(std::string("rope.scaling.yarn_") + beta);
    if (!file_.Has(key)) continue;
    OUTRIDER_ASSIGN(scaling[beta], Value(key));
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
      OUTRIDER_ASSIGN(json_["sliding_window_pattern"], file_.Int(pattern, 1, kMostOfAGgufSize));
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

Status ConfigWriter::WriteGptOss() {
  if (!file_.Has(Key("attention.sliding_window"))) {
    return file_.Wrong(Key("attention.sliding_window"), "is missing");
  }
  if (!json_.contains("rope_scaling")) json_["rope_scaling"] = nullptr;
  // As published; a file cannot say it.
  if (json_["rope_scaling"].is_object()) json_["rope_scaling"]["truncate"] = false;
  return Copy("attention.sliding_window", "sliding_window");
}

// llama.cpp has a mixture in every layer, and normalises the weights of a row's experts to sum to
// 1.
Status ConfigWriter::WriteMixture() {
  const bool is_mixtral = architecture_.name == "llama", is_gpt_oss = IsGgufGptOss(architecture_);
  const char* size = is_mixtral ? "feed_forward_length" : "expert_feed_forward_length";
  for (const char* name : {"expert_used_count", size}) {
    if (!file_.Has(Key(name))) return file_.Wrong(Key(name), "is missing");
  }
  OUTRIDER_TRY(
      Copy("expert_count", is_mixtral || is_gpt_oss ? "num_local_experts" : "num_experts"));
  OUTRIDER_TRY(Copy("expert_used_count", "num_experts_per_tok"));
  if (is_mixtral) return Status();
  if (is_gpt_oss) return Copy(size, "intermediate_size");
  json_["norm_topk_prob"] = true;
  return Copy(size, "moe_intermediate_size");
}

// Those of the published generation_config.json, too, where a file of gpt-oss names one.
Status ConfigWriter::WriteEnds() {
  Json ends = Json::array();
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    OUTRIDER_ASSIGN(const auto id, file_.MaybeToken(key, kMostOfAGgufSize));
    if (id.has_value()) ends.push_back(*id);
  }
  if (IsGgufGptOss(architecture_) && file_.Has("tokenizer.ggml.tokens")) {
    OUTRIDER_ASSIGN(const auto tokens, file_.Texts("tokenizer.ggml.tokens"));
    for (const std::string_view end : {"<|return|>", "<|call|>", "<|endoftext|>"}) {
      const auto found = std::find(tokens.begin(), tokens.end(), end);
      if (found != tokens.end()) ends.push_back(found - tokens.begin());
    }
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
  if (IsGgufGemma(architecture_)) OUTRIDER_TRY(WriteGemma());
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
  if (IsGgufGptOss(architecture_)) OUTRIDER_TRY(WriteGptOss());
  OUTRIDER_TRY(WriteEnds());
  return json_.dump();
}

}  // namespace

Result<std::string> GgufConfigJson(const GgufFile& file) {
  OUTRIDER_ASSIGN(const GgufArchitecture* architecture, FindGgufArchitecture(file));
  OUTRIDER_TRY(GgufEntries(file).status());
  return ConfigWriter(file, *architecture).Write();
}

}  // namespace outrider
