#include "tests/support/checkpoint_maker.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/mix_bits.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

// Normal variates that are reproducible everywhere, unlike those of std::normal_distribution.
class Normal {
 public:
  explicit Normal(uint64_t seed) : state_(seed) {}

  double Next() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }

 private:
  double Uniform() {
    state_ += kSplitMixStep;
    return UnitOf(MixBits(state_));
  }

  uint64_t state_;
};

bool IsMixture(Family family) {
  return family == Family::kMixtral || family == Family::kQwen3Moe || family == Family::kGptOss;
}

bool IsGemma(Family family) { return family == Family::kGemma2 || family == Family::kGemma3; }

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

class Maker {
 public:
  explicit Maker(const CheckpointOptions& options)
      : o_(options), weights_(options.seed), noise_(options.noise_seed ^ 0x5eed) {}

  const std::map<std::string, Tensor>& Tensors() {
    const int q = o_.num_heads * o_.head_dim;
    const int kv = o_.num_kv_heads * o_.head_dim;
    // Rows of length 1.5 give logits of that standard deviation on a normalised state.
    const double embedding = 1.5 / std::sqrt(o_.hidden_size);
    Add("model.embed_tokens.weight", {o_.vocab_size, o_.hidden_size}, 0, embedding);
    for (int i = 0; i < o_.num_layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      const std::string attention = layer + "self_attn.";
      const bool olmo2 = o_.family == Family::kOlmo2;
      if (!olmo2) AddNorm(layer + "input_layernorm.weight");
      AddProjection(attention, "qkv_proj", {{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}});
      Add(attention + "o_proj.weight", {o_.hidden_size, q}, 0, 1 / std::sqrt(q));
      AddAttentionBiases(attention, q, kv);
      if (o_.family == Family::kGptOss) Add(attention + "sinks", {o_.num_heads}, 0, 1);
      if (o_.kv_scales) {
        // Small enough that some keys and values are out of the range of the codes.
        Add(attention + "k_scale", {1}, 0.004 + 0.001 * i, 0);
        Add(attention + "v_scale", {1}, 0.006 - 0.001 * i, 0);
      }
      if (o_.family == Family::kQwen3 || o_.family == Family::kQwen3Moe ||
          o_.family == Family::kGemma3 || olmo2) {
        const double mean = o_.family == Family::kGemma3 ? 0 : 1;
        Add(attention + "q_norm.weight", {olmo2 ? q : o_.head_dim}, mean, 0.2);
        Add(attention + "k_norm.weight", {olmo2 ? kv : o_.head_dim}, mean, 0.2);
      }
      AddNorm(layer + "post_attention_layernorm.weight");
      if (IsGemma(o_.family)) AddNorm(layer + "pre_feedforward_layernorm.weight");
      if (IsGemma(o_.family) || olmo2) AddNorm(layer + "post_feedforward_layernorm.weight");
      if (o_.family == Family::kGptOss) {
        AddStackedMixture(layer + "mlp.");
      } else if (IsMixture(o_.family)) {
        AddMixture(layer);
      } else {
        AddMlp(layer + "mlp.");
      }
    }
    AddNorm("model.norm.weight");
    if (!o_.tied_embeddings) {
      Add("lm_head.weight", {o_.vocab_size, o_.hidden_size}, 0, embedding);
    }
    return tensors_;
  }

 private:
  // Adds a gain around 1, which Gemma stores minus 1.
  void AddNorm(const std::string& name) {
    Add(name, {o_.hidden_size}, IsGemma(o_.family) ? 0 : 1, 0.1);
  }
  // Adds matrices of the hidden state with these numbers of rows, which Phi-3 stores as one,
  // `fused`.
  void AddProjection(const std::string& prefix, const std::string& fused,
                     const std::vector<std::pair<std::string, int>>& parts) {
    const double spread = 1 / std::sqrt(o_.hidden_size);
    int all = 0;
    for (const auto& [name, rows] : parts) {
      all += rows;
      if (o_.family == Family::kPhi3) continue;
      Add(prefix + name + ".weight", {rows, o_.hidden_size}, 0, spread);
    }
    if (o_.family != Family::kPhi3) return;
    Add(prefix + fused + ".weight", {all, o_.hidden_size}, 0, spread);
  }
  void AddAttentionBiases(const std::string& attention, int q, int kv) {
    const bool gpt_oss = o_.family == Family::kGptOss;
    if (o_.attention_bias || o_.family == Family::kQwen2 || gpt_oss) {
      Add(attention + "q_proj.bias", {q}, 0, 0.5);
      Add(attention + "k_proj.bias", {kv}, 0, 0.5);
      Add(attention + "v_proj.bias", {kv}, 0, 0.5);
    }
    if (o_.attention_bias || gpt_oss) Add(attention + "o_proj.bias", {o_.hidden_size}, 0, 0.5);
  }
  // Adds one tensor per projection for all experts, input-major. Gates and ups are large enough
  // that some are clamped.
  void AddStackedMixture(const std::string& block) {
    const int experts = o_.num_experts, width = o_.expert_size, hidden = o_.hidden_size;
    const double in = 1 / std::sqrt(hidden), between = 1 / std::sqrt(width);
    Add(block + "router.weight", {experts, hidden}, 0, in);
    Add(block + "router.bias", {experts}, 0, 0.5);
    Add(block + "experts.gate_up_proj", {experts, hidden, 2 * width}, 0, 3 * in);
    Add(block + "experts.gate_up_proj_bias", {experts, 2 * width}, 0, 0.5);
    Add(block + "experts.down_proj", {experts, width, hidden}, 0, between / 8);
    Add(block + "experts.down_proj_bias", {experts, hidden}, 0, 0.1);
  }
  // Router logits have a standard deviation of about 1.
  void AddMixture(const std::string& layer) {
    const bool mixtral = o_.family == Family::kMixtral;
    const std::string block = layer + (mixtral ? "block_sparse_moe." : "mlp.");
    const double in = 1 / std::sqrt(o_.hidden_size), between = 1 / std::sqrt(o_.expert_size);
    Add(block + "gate.weight", {o_.num_experts, o_.hidden_size}, 0, in);
    for (int e = 0; e < o_.num_experts; ++e) {
      const std::string expert = block + "experts." + std::to_string(e) + ".";
      const auto name = [&](const char* mixtral_name, const char* qwen_name) {
        return expert + (mixtral ? mixtral_name : qwen_name) + ".weight";
      };
      Add(name("w1", "gate_proj"), {o_.expert_size, o_.hidden_size}, 0, in);
      Add(name("w3", "up_proj"), {o_.expert_size, o_.hidden_size}, 0, in);
      Add(name("w2", "down_proj"), {o_.hidden_size, o_.expert_size}, 0, between);
    }
    // For layers that config.json makes dense.
    if (!mixtral) AddMlp(block);
  }
  void AddMlp(const std::string& mlp) {
    const int width = o_.intermediate_size;
    AddProjection(mlp, "gate_up_proj", {{"gate_proj", width}, {"up_proj", width}});
    Add(mlp + "down_proj.weight", {o_.hidden_size, width}, 0, 1 / std::sqrt(width));
    if (!o_.mlp_bias) return;
    Add(mlp + "gate_proj.bias", {width}, 0, 0.5);
    Add(mlp + "up_proj.bias", {width}, 0, 0.5);
    Add(mlp + "down_proj.bias", {o_.hidden_size}, 0, 0.5);
  }
  void Add(const std::string& name, std::vector<int64_t> shape, double mean, double spread) {
    size_t count = 1;
    for (const int64_t size : shape) count *= static_cast<size_t>(size);
    Tensor tensor{std::move(shape), {}};
    for (size_t i = 0; i < count; ++i) {
      const double noise = o_.noise > 0 ? o_.noise * noise_.Next() : 0;
      tensor.values.push_back(static_cast<float>(mean + spread * (weights_.Next() + noise)));
    }
    tensors_[name] = std::move(tensor);
  }

  const CheckpointOptions& o_;
  Normal weights_;
  Normal noise_;
  std::map<std::string, Tensor> tensors_;
};

// Whether a quantized checkpoint stores this tensor as codes.
bool IsQuantized(const std::string& name) {
  for (const char* suffix : {"_proj.weight", ".w1.weight", ".w2.weight", ".w3.weight"}) {
    if (name.ends_with(suffix)) return true;
  }
  return false;
}

std::string Encode(const Tensor& tensor, Dtype dtype) {
  std::string bytes(tensor.values.size() * DtypeBytes(dtype), '\0');
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const float value = tensor.values[i];
    if (dtype == Dtype::kF32) {
      std::memcpy(bytes.data() + 4 * i, &value, 4);
    } else {
      const uint16_t half = dtype == Dtype::kF16 ? FloatToF16(value) : FloatToBf16(value);
      std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
  }
  return bytes;
}

Status WriteWeights(const std::filesystem::path& directory, const CheckpointOptions& options) {
  Maker maker(options);
  const std::map<std::string, Tensor>& tensors = maker.Tensors();
  static const std::map<Dtype, std::string> kDtypes = {
      {Dtype::kF32, "F32"}, {Dtype::kF16, "F16"}, {Dtype::kBf16, "BF16"}};
  std::vector<std::map<std::string, StoredTensor>> shards(static_cast<size_t>(options.shards));
  Json weight_map;
  const auto file_of = [&](size_t shard) {
    const auto five = [](int n) {
      return std::string(5 - std::to_string(n).size(), '0') + std::to_string(n);
    };
    return options.shards == 1 ? std::string("model.safetensors")
                               : "model-" + five(static_cast<int>(shard) + 1) + "-of-" +
                                     five(options.shards) + ".safetensors";
  };
  size_t next = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t shard = next++ % shards.size();
    weight_map[name] = file_of(shard);
    if (options.stored_as == StoredAs::kMxfp4) {
      if (name.ends_with("experts.gate_up_proj") || name.ends_with("experts.down_proj")) {
        for (auto& [part, stored] : Mxfp4TensorsOf(name, tensor.values, tensor.shape)) {
          weight_map[part] = file_of(shard);
          shards[shard][part] = std::move(stored);
        }
        weight_map.erase(name);
        continue;
      }
    } else if (options.stored_as != StoredAs::kFloats && IsQuantized(name)) {
      const std::string base = name.substr(0, name.size() - std::string_view("weight").size());
      weight_map.erase(name);
      for (auto& [part, stored] : QuantizedTensorsOf(options.stored_as, base, tensor.values,
                                                     tensor.shape[0], tensor.shape[1])) {
        weight_map[part] = file_of(shard);
        shards[shard][part] = std::move(stored);
      }
      continue;
    }
    shards[shard][name] = {kDtypes.at(options.dtype), tensor.shape, Encode(tensor, options.dtype)};
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    OUTRIDER_TRY(WriteSafetensors(directory / file_of(i), shards[i]));
  }
  if (options.shards == 1) return Status();
  return WriteFile(directory / "model.safetensors.index.json",
                   Json{{"metadata", Json::object()}, {"weight_map", weight_map}}.dump());
}

void AddRope(const CheckpointOptions& o, Json& config) {
  const double theta = o.family == Family::kLlama3 ? 500000.0 : 10000.0;
  Json rope = {{"rope_type", "default"}};
  if (o.family == Family::kLlama3) {
    // The original context is so short that small models reach all three branches of the scaling.
    rope = {{"rope_type", "llama3"},
            {"factor", 8.0},
            {"low_freq_factor", 1.0},
            {"high_freq_factor", 4.0},
            {"original_max_position_embeddings", 128}};
  }
  if (o.family == Family::kGemma3) {
    const Json local = {{"rope_type", "default"}, {"rope_theta", 100.0}};
    const Json global = {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}};
    if (o.rope_parameters) {
      config["rope_parameters"] = {{"sliding_attention", local}, {"full_attention", global}};
    } else {
      config["rope_local_base_freq"] = 100.0;
      config["rope_theta"] = 1e6;
      config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
    }
  } else if (o.rope_parameters) {
    rope["rope_theta"] = theta;
    config["rope_parameters"] = rope;
  } else {
    config["rope_theta"] = theta;
    config["rope_scaling"] = o.family == Family::kLlama3 ? rope : Json();
  }
}

// Adds the fields specific to the family, with values small enough that small models exercise them.
void AddFamilysFields(const CheckpointOptions& o, Json& config) {
  const Json window = o.sliding_window > 0 ? Json(o.sliding_window) : Json();
  const bool qwen = o.family == Family::kQwen2 || o.family == Family::kQwen3;
  if (o.family == Family::kMistral || o.family == Family::kPhi3) config["sliding_window"] = window;
  if (qwen) {
    config["use_sliding_window"] = o.sliding_window > 0;
    config["sliding_window"] = o.sliding_window > 0 ? o.sliding_window : 4096;
    config["max_window_layers"] = 1;
  }
  if (o.family != Family::kQwen2) config["attention_bias"] = o.attention_bias;
  if (o.mlp_bias) config["mlp_bias"] = true;
  if (IsGemma(o.family)) {
    config["hidden_act"] = config["hidden_activation"] = "gelu_pytorch_tanh";
    config["sliding_window"] = o.sliding_window > 0 ? o.sliding_window : 24;
    config["query_pre_attn_scalar"] = o.head_dim / 2;
  }
  if (o.family == Family::kGemma2) {
    config["attn_logit_softcapping"] = 1.5;
    config["final_logit_softcapping"] = 4.0;
  }
  if (o.family == Family::kGemma3) config["sliding_window_pattern"] = 3;
  if (o.family == Family::kGranite) {
    config["embedding_multiplier"] = 3.0;
    config["attention_multiplier"] = 0.4;
    config["residual_multiplier"] = 0.22;
    config["logits_scaling"] = 0.7;
  }
  if (o.family == Family::kMixtral) {
    config["num_local_experts"] = o.num_experts;
    config["intermediate_size"] = o.expert_size;
    config["sliding_window"] = window;
  }
  if (o.family == Family::kQwen3Moe) {
    config["num_experts"] = o.num_experts;
    config["moe_intermediate_size"] = o.expert_size;
    config["norm_topk_prob"] = true;
    config["decoder_sparse_step"] = 1;
    config["mlp_only_layers"] = Json::array();
  }
  if (o.family == Family::kGptOss) {
    config["num_local_experts"] = o.num_experts;
    config["intermediate_size"] = o.expert_size;
    config["attention_bias"] = true;
    config["swiglu_limit"] = 7.0;
    config["sliding_window"] = o.sliding_window > 0 ? o.sliding_window : 24;
    // As published, except for the original context, which is short enough for small models to
    // exceed.
    config["rope_theta"] = 150000.0;
    config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 8.0},
                              {"beta_fast", 32.0},   {"beta_slow", 1.0},
                              {"truncate", false},   {"original_max_position_embeddings", 64}};
  }
  if (IsMixture(o.family)) config["num_experts_per_tok"] = o.experts_per_token;
  if (o.family == Family::kSmolLm3) {
    config["no_rope_layers"] = Json::array();
    for (int i = 0; i < o.num_layers; ++i) config["no_rope_layers"].push_back(i % 2);
  }
}

// As written by llm-compressor, which can quantize keys and values alone.
void AddKvCacheScheme(Json& config) {
  Json& quantization = config["quantization_config"];
  if (quantization.is_null()) {
    quantization = {{"quant_method", "compressed-tensors"},
                    {"quantization_status", "compressed"},
                    {"format", "dense"},
                    {"config_groups", Json::object()}};
  }
  if (quantization["quant_method"] != "compressed-tensors") return;
  quantization["kv_cache_scheme"] = {{"num_bits", 8},        {"type", "float"},
                                     {"strategy", "tensor"}, {"symmetric", true},
                                     {"dynamic", false},     {"group_size", nullptr}};
}

Json Config(const CheckpointOptions& o) {
  static const std::map<Family, std::string> kArchitectures = {
      {Family::kLlama, "LlamaForCausalLM"},       {Family::kLlama3, "LlamaForCausalLM"},
      {Family::kMistral, "MistralForCausalLM"},   {Family::kQwen2, "Qwen2ForCausalLM"},
      {Family::kQwen3, "Qwen3ForCausalLM"},       {Family::kGemma2, "Gemma2ForCausalLM"},
      {Family::kGemma3, "Gemma3ForCausalLM"},     {Family::kOlmo2, "Olmo2ForCausalLM"},
      {Family::kGranite, "GraniteForCausalLM"},   {Family::kSmolLm3, "SmolLM3ForCausalLM"},
      {Family::kPhi3, "Phi3ForCausalLM"},         {Family::kMixtral, "MixtralForCausalLM"},
      {Family::kQwen3Moe, "Qwen3MoeForCausalLM"}, {Family::kGptOss, "GptOssForCausalLM"}};
  Json config = {{"architectures", {kArchitectures.at(o.family)}},
                 {"hidden_act", "silu"},
                 {"vocab_size", o.vocab_size},
                 {"hidden_size", o.hidden_size},
                 {"intermediate_size", o.intermediate_size},
                 {"num_hidden_layers", o.num_layers},
                 {"num_attention_heads", o.num_heads},
                 {"num_key_value_heads", o.num_kv_heads},
                 {"head_dim", o.head_dim},
                 {"max_position_embeddings", o.max_position_embeddings},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", o.tied_embeddings},
                 {"bos_token_id", 0},
                 {"torch_dtype", "bfloat16"}};
  if (o.stored_as != StoredAs::kFloats) {
    config["quantization_config"] = QuantizationConfig(o.stored_as);
  }
  if (o.kv_scales) AddKvCacheScheme(config);
  if (o.eos_token_ids.size() == 1) {
    config["eos_token_id"] = o.eos_token_ids[0];
  } else {
    config["eos_token_id"] = o.eos_token_ids;
  }
  AddRope(o, config);
  AddFamilysFields(o, config);
  if (!o.config.empty()) config.merge_patch(Json::parse(o.config));
  return config;
}

// GPT-2's printable substitute for a byte.
std::string ByteSymbol(int byte) {
  const auto printable = [](int b) {
    return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  };
  int code = byte;
  if (!printable(byte)) {
    code = 256;
    for (int b = 0; b < byte; ++b) code += printable(b) ? 0 : 1;
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

Json Tokenizer(const CheckpointOptions& o) {
  Json vocabulary = {{"<s>", 0}, {"</s>", 1}};
  for (int byte = 0; byte < 256; ++byte) vocabulary[ByteSymbol(byte)] = 2 + byte;
  Json merges = Json::array();
  int next = 258;
  const std::string letters = " etaoinshrdlucmfwypvbgkjxqz";
  for (const char first : letters) {
    for (const char second : letters.substr(1)) {
      if (next >= o.vocab_size) break;
      const std::string left = ByteSymbol(first);
      const std::string right = ByteSymbol(second);
      merges.push_back(left + " " + right);
      vocabulary[left + right] = next++;
    }
  }
  const auto special = [](int id, const char* content) {
    return Json{{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", false}, {"special", true}};
  };
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", {special(0, "<s>"), special(1, "</s>")}},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocabulary},
            {"merges", merges}}}};
}

}  // namespace

Result<Family> ParseFamily(const std::string& name) {
  static const std::map<std::string, Family> kFamilies = {
      {"llama", Family::kLlama},       {"llama3", Family::kLlama3}, {"mistral", Family::kMistral},
      {"qwen2", Family::kQwen2},       {"qwen3", Family::kQwen3},   {"gemma2", Family::kGemma2},
      {"gemma3", Family::kGemma3},     {"olmo2", Family::kOlmo2},   {"granite", Family::kGranite},
      {"smollm3", Family::kSmolLm3},   {"phi3", Family::kPhi3},     {"mixtral", Family::kMixtral},
      {"qwen3moe", Family::kQwen3Moe}, {"gptoss", Family::kGptOss}};
  const auto found = kFamilies.find(name);
  if (found == kFamilies.end()) return InvalidArgument("no family \"" + name + "\"");
  return found->second;
}

Status MakeCheckpoint(const std::filesystem::path& directory, const CheckpointOptions& options) {
  if (options.shards < 1) return InvalidArgument("shards is " + std::to_string(options.shards));
  if (options.tokenizer && options.vocab_size < 258) {
    return InvalidArgument("a byte-level tokenizer needs a vocabulary of 258");
  }
  std::error_code failure;
  std::filesystem::create_directories(directory, failure);
  if (failure) return Internal(directory.string() + ": " + failure.message());
  // Weights of either form from an earlier run would be read instead of the new ones.
  std::filesystem::remove(directory / "model.safetensors", failure);
  std::filesystem::remove(directory / "model.safetensors.index.json", failure);
  OUTRIDER_TRY(WriteFile(directory / "config.json", Config(options).dump(2)));
  if (options.tokenizer) {
    CheckpointOptions tokens = options;
    if (options.tokenizer_tokens > 0) tokens.vocab_size = options.tokenizer_tokens;
    OUTRIDER_TRY(WriteFile(directory / "tokenizer.json", Tokenizer(tokens).dump(1)));
  }
  return WriteWeights(directory, options);
}

}  // namespace outrider
