#include "tests/support/gguf_conversion.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>
#include <vector>

#include "tests/support/ggml_types.h"
#include "tests/support/gguf_gpt_oss.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

std::string ReadAllOf(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The names of config.json and of the format, per architecture.
struct Family {
  std::string gguf;
  bool reorders = false;  // rows of q and k
  bool is_gemma = false;
};

Family FamilyOf(const std::string& architecture) {
  static const std::map<std::string, Family> kFamilies = {
      {"LlamaForCausalLM", {"llama", true}},
      {"Qwen2ForCausalLM", {"qwen2"}},
      {"Qwen3ForCausalLM", {"qwen3"}},
      {"Gemma2ForCausalLM", {"gemma2", false, true}},
      {"Gemma3ForCausalLM", {"gemma3", false, true}},
      {"Phi3ForCausalLM", {"phi3"}},
      {"Olmo2ForCausalLM", {"olmo2"}},
      {"GraniteForCausalLM", {"granite", true}},
      {"SmolLM3ForCausalLM", {"smollm3", true}},
      {"MixtralForCausalLM", {"llama", true}},
      {"Qwen3MoeForCausalLM", {"qwen3moe"}},
      {"GptOssForCausalLM", {"gpt-oss"}}};
  return kFamilies.at(architecture);
}

// The file's name for a tensor such as "model.layers.3.self_attn.q_proj.weight".
std::string GgufName(const Family& family, std::string name) {
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  static const std::map<std::string, std::string> kParts = {
      {"self_attn.q_proj", "attn_q"},
      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"},
      {"self_attn.qkv_proj", "attn_qkv"},
      {"self_attn.q_norm", "attn_q_norm"},
      {"self_attn.k_norm", "attn_k_norm"},
      {"mlp.gate_proj", "ffn_gate"},
      {"mlp.up_proj", "ffn_up"},
      {"mlp.gate_up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"},
      {"mlp.gate", "ffn_gate_inp"},
      {"mlp.router", "ffn_gate_inp"},
      {"block_sparse_moe.gate", "ffn_gate_inp"},
      {"input_layernorm", "attn_norm"},
      {"pre_feedforward_layernorm", "ffn_norm"},
      {"post_feedforward_layernorm", "post_ffw_norm"}};
  name = name.substr(std::string("model.layers.").size());
  const size_t dot = name.find('.'), last = name.rfind('.');
  const std::string layer = name.substr(0, dot), part = name.substr(dot + 1, last - dot - 1);
  if (name.ends_with(".sinks")) return "blk." + layer + ".attn_sinks.weight";
  std::string gguf_part;
  if (part == "post_attention_layernorm") {
    const bool is_after = family.is_gemma || family.gguf == "olmo2" || family.gguf == "gpt-oss";
    gguf_part = is_after ? "post_attention_norm" : "ffn_norm";
  } else {
    gguf_part = kParts.at(part);
  }
  return "blk." + layer + "." + gguf_part + name.substr(last);
}

// One projection of a layer's experts: its shape [rows, columns], and each expert's name in the
// checkpoint and values.
struct Stack {
  std::vector<int64_t> shape;
  std::map<int, std::pair<std::string, std::vector<float>>> experts;
};

// "blk.3.ffn_up_exps.weight" and 7 for "model.layers.3.mlp.experts.7.up_proj.weight"; "" and 0 for
// a tensor that does not belong to an expert.
std::pair<std::string, int> StackOf(const std::string& name) {
  const std::string mark = ".experts.";
  const size_t pos = name.find(mark);
  if (pos == std::string::npos) return {"", 0};
  static const std::map<std::string, std::string> kStacks = {
      {"w1.weight", "gate"},        {"w2.weight", "down"},    {"w3.weight", "up"},
      {"gate_proj.weight", "gate"}, {"up_proj.weight", "up"}, {"down_proj.weight", "down"}};
  const size_t layer = std::string("model.layers.").size(), expert = pos + mark.size();
  const size_t dot = name.find('.', expert);
  return {"blk." + name.substr(layer, name.find('.', layer) - layer) + ".ffn_" +
              kStacks.at(name.substr(dot + 1)) + "_exps.weight",
          std::stoi(name.substr(expert, dot - expert))};
}

// Rows 0 to size - 1 of each head become rows 0, size / 2, 1, size / 2 + 1, ...
std::vector<float> Reordered(const std::vector<float>& values, int64_t rows, int64_t heads) {
  const int64_t columns = static_cast<int64_t>(values.size()) / rows, size = rows / heads;
  std::vector<float> out;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < size / 2; ++i) {
      for (const int64_t row : {i, size / 2 + i}) {
        const auto begin = values.begin() + (head * size + row) * columns;
        out.insert(out.end(), begin, begin + columns);
      }
    }
  }
  return out;
}

std::vector<float> RestoredOrder(const std::vector<float>& values, int64_t rows, int64_t heads) {
  std::vector<float> indices(static_cast<size_t>(rows));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<float>(i);
  const std::vector<float> from = Reordered(indices, rows, heads);
  const int64_t columns = static_cast<int64_t>(values.size()) / rows;
  std::vector<float> out(values.size());
  for (int64_t row = 0; row < rows; ++row) {
    const auto to = static_cast<int64_t>(from[static_cast<size_t>(row)]);
    std::copy_n(values.begin() + row * columns, columns, out.begin() + to * columns);
  }
  return out;
}

class Conversion {
 public:
  Conversion(const std::filesystem::path& directory, const GgufOptions& options)
      : directory_(directory),
        options_(options),
        config_(Json::parse(ReadAllOf(directory / "config.json"))),
        family_(FamilyOf(config_["architectures"][0])) {}

  Status Write(const std::filesystem::path& to) {
    writer_.Text("general.architecture", family_.gguf);
    writer_.Text("general.type", "model");
    writer_.Text("general.name", "a test");
    WriteMetadata();
    WriteRope();
    if (options_.tokenizer) WriteTokenizer();
    std::map<std::string, StoredTensor> kept;
    WriteTensors(&kept);
    OUTRIDER_TRY(WriteSafetensors(directory_ / "model.safetensors", kept));
    return WriteFile(to, writer_.File());
  }

 private:
  std::string Key(const std::string& name) const { return family_.gguf + "." + name; }
  bool Set(const char* field) const {
    return config_.contains(field) && !config_.at(field).is_null();
  }
  void CopyInt(const char* field, const std::string& key) {
    if (Set(field)) writer_.Uint32(Key(key), config_[field].get<uint32_t>());
  }
  void CopyFloat(const char* field, const std::string& key) {
    if (Set(field)) writer_.Float(Key(key), config_[field].get<float>());
  }

  void WriteMetadata();
  void WriteRope();
  void WriteFactors(const std::string& name, const std::vector<float>& factors) {
    writer_.Tensor(name, 0, {static_cast<int64_t>(factors.size())}, GgmlEncode("F32", factors));
  }
  std::vector<float> Llama3Factors(const Json& scaling) const;
  void WriteTokenizer();
  void WriteTensors(std::map<std::string, StoredTensor>* kept);
  // `to` is the name of a matrix.
  std::string TypeOfMatrix(const std::string& to) const {
    const bool is_finer = to.ends_with("attn_v.weight") || to.find("ffn_down") < to.size() ||
                          to == "token_embd.weight";
    return is_finer && !options_.finer_type.empty() ? options_.finer_type : options_.type;
  }
  std::string TypeOfExperts(const std::string& to) const {
    return options_.experts.empty() ? TypeOfMatrix(to) : options_.experts;
  }
  // gpt-oss's experts, or their biases.
  StoredTensor WriteStacked(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<float>& values);
  void WriteStack(const std::string& to, const Stack& stack,
                  std::map<std::string, StoredTensor>* kept);
  StoredTensor WriteTensor(const std::string& name, const std::vector<int64_t>& shape,
                           std::vector<float> values);

  const std::filesystem::path& directory_;
  const GgufOptions& options_;
  const Json config_;
  const Family family_;
  GgufWriter writer_;
};

void Conversion::WriteMetadata() {
  CopyInt("hidden_size", "embedding_length");
  CopyInt("intermediate_size", "feed_forward_length");
  CopyInt("num_hidden_layers", "block_count");
  CopyInt("num_attention_heads", "attention.head_count");
  CopyInt("num_key_value_heads", "attention.head_count_kv");
  CopyInt("head_dim", "attention.key_length");
  CopyInt("head_dim", "attention.value_length");
  CopyInt("max_position_embeddings", "context_length");
  CopyInt("vocab_size", "vocab_size");
  CopyFloat("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  if (family_.gguf == "phi3") {
    writer_.Uint32(Key("attention.sliding_window"),
                   Set("sliding_window") ? config_["sliding_window"].get<uint32_t>() : 0);
  }
  if (family_.is_gemma) {
    CopyInt("sliding_window", "attention.sliding_window");
    CopyFloat("attn_logit_softcapping", "attn_logit_softcapping");
    CopyFloat("final_logit_softcapping", "final_logit_softcapping");
    CopyInt("sliding_window_pattern", "attention.sliding_window_pattern");
  }
  CopyInt("num_local_experts", "expert_count");
  CopyInt("num_experts", "expert_count");
  CopyInt("num_experts_per_tok", "expert_used_count");
  CopyInt("moe_intermediate_size", "expert_feed_forward_length");
  if (family_.gguf == "gpt-oss") {
    CopyInt("intermediate_size", "expert_feed_forward_length");
    CopyInt("sliding_window", "attention.sliding_window");
  }
  if (family_.gguf == "granite") {
    CopyFloat("attention_multiplier", "attention.scale");
    CopyFloat("embedding_multiplier", "embedding_scale");
    CopyFloat("residual_multiplier", "residual_scale");
    CopyFloat("logits_scaling", "logit_scale");
  }
  const Json& ends = config_["eos_token_id"];
  writer_.Uint32("tokenizer.ggml.bos_token_id", config_.value("bos_token_id", 0u));
  writer_.Uint32("tokenizer.ggml.eos_token_id", (ends.is_array() ? ends[0] : ends).get<uint32_t>());
}

// As computed by the conversion, in float.
std::vector<float> Conversion::Llama3Factors(const Json& scaling) const {
  const int dims = config_["head_dim"];
  const float base = config_["rope_theta"], factor = scaling["factor"];
  const float low = scaling["low_freq_factor"], high = scaling["high_freq_factor"];
  const float length = scaling["original_max_position_embeddings"];
  std::vector<float> factors;
  for (int i = 0; i < dims; i += 2) {
    const float frequency = 1 / std::pow(base, static_cast<float>(i) / static_cast<float>(dims));
    const float wavelength = 2 * std::numbers::pi_v<float> / frequency;
    const float smooth = (length / wavelength - low) / (high - low);
    if (wavelength < length / high) {
      factors.push_back(1);
    } else if (wavelength > length / low) {
      factors.push_back(factor);
    } else {
      factors.push_back(1 / ((1 - smooth) / factor + smooth));
    }
  }
  return factors;
}

void Conversion::WriteRope() {
  CopyFloat("rope_theta", "rope.freq_base");
  CopyFloat("rope_local_base_freq", "rope.freq_base_swa");
  const double partial = config_.value("partial_rotary_factor", 1.0);
  writer_.Uint32(Key("rope.dimension_count"),
                 static_cast<uint32_t>(partial * config_["head_dim"].get<double>()));
  if (!Set("rope_scaling")) return;
  const Json& scaling = config_["rope_scaling"];
  const std::string type = scaling.contains("rope_type") ? scaling["rope_type"] : scaling["type"];
  if (type == "llama3") return WriteFactors("rope_freqs.weight", Llama3Factors(scaling));
  if (type == "longrope") {
    CopyInt("original_max_position_embeddings", "rope.scaling.original_context_length");
    const double original = config_["original_max_position_embeddings"];
    const double ratio = config_["max_position_embeddings"].get<double>() / original;
    writer_.Float(Key("rope.scaling.attn_factor"),
                  static_cast<float>(std::sqrt(1 + std::log(ratio) / std::log(original))));
    WriteFactors("rope_factors_long.weight", scaling["long_factor"].get<std::vector<float>>());
    WriteFactors("rope_factors_short.weight", scaling["short_factor"].get<std::vector<float>>());
    return;
  }
  writer_.Text(Key("rope.scaling.type"), type);
  writer_.Float(Key("rope.scaling.factor"), scaling["factor"].get<float>());
  if (scaling.contains("original_max_position_embeddings")) {
    writer_.Uint32(Key("rope.scaling.original_context_length"),
                   scaling["original_max_position_embeddings"].get<uint32_t>());
  }
}

void Conversion::WriteTokenizer() {
  const Json json = Json::parse(ReadAllOf(directory_ / "tokenizer.json"));
  const size_t rows = config_["vocab_size"];
  std::vector<std::string> tokens(rows);
  std::vector<int32_t> types(rows, 5);
  for (size_t id = 0; id < rows; ++id) tokens[id] = "[PAD" + std::to_string(id) + "]";
  for (const auto& [text, id] : json["model"]["vocab"].items()) {
    tokens[id.get<size_t>()] = text;
    types[id.get<size_t>()] = 1;
  }
  for (const Json& added : json["added_tokens"]) {
    tokens[added["id"].get<size_t>()] = added["content"];
    types[added["id"].get<size_t>()] = added.value("special", false) ? 3 : 4;
  }
  std::vector<std::string> merges;
  for (const Json& merge : json["model"]["merges"]) {
    merges.push_back(merge.is_string()
                         ? merge.get<std::string>()
                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  writer_.Text("tokenizer.ggml.model", "gpt2");
  writer_.Text("tokenizer.ggml.pre", options_.pre);
  writer_.Texts("tokenizer.ggml.tokens", tokens);
  writer_.Int32s("tokenizer.ggml.token_type", types);
  writer_.Texts("tokenizer.ggml.merges", merges);
  writer_.Bool("tokenizer.ggml.add_bos_token", false);
}

StoredTensor Conversion::WriteTensor(const std::string& name, const std::vector<int64_t>& shape,
                                     std::vector<float> values) {
  const std::string to = GgufName(family_, name);
  const bool is_matrix = shape.size() == 2;
  const float shift = family_.is_gemma && name.ends_with("norm.weight") ? 1.f : 0.f;
  for (float& value : values) value += shift;
  int64_t heads = 0;
  if (family_.reorders && to.find(".attn_q.") != std::string::npos) {
    heads = config_["num_attention_heads"];
  }
  if (family_.reorders && to.find(".attn_k.") != std::string::npos) {
    heads = config_["num_key_value_heads"];
  }
  if (heads > 0) values = Reordered(values, shape[0], heads);
  const bool is_router = to.ends_with("ffn_gate_inp.weight");
  const std::string type = is_matrix && !is_router ? TypeOfMatrix(to) : "F32";
  const std::string bytes = GgmlEncode(type, values);
  writer_.Tensor(to, GgmlTypeNumber(type), shape, bytes);
  values = GgmlDecode(type, bytes);
  if (heads > 0) values = RestoredOrder(values, shape[0], heads);
  for (float& value : values) value -= shift;
  return {"F32", shape, GgmlEncode("F32", values)};
}

void Conversion::WriteStack(const std::string& to, const Stack& stack,
                            std::map<std::string, StoredTensor>* kept) {
  std::vector<float> all;
  for (const auto& [expert, named] : stack.experts) {
    all.insert(all.end(), named.second.begin(), named.second.end());
  }
  const std::string type = TypeOfExperts(to), bytes = GgmlEncode(type, all);
  writer_.Tensor(to, GgmlTypeNumber(type),
                 {static_cast<int64_t>(stack.experts.size()), stack.shape[0], stack.shape[1]},
                 bytes);
  all = GgmlDecode(type, bytes);
  auto begin = all.begin();
  for (const auto& [expert, named] : stack.experts) {
    const auto end = begin + static_cast<std::ptrdiff_t>(named.second.size());
    (*kept)[named.first] = {"F32", stack.shape, GgmlEncode("F32", std::vector<float>(begin, end))};
    begin = end;
  }
}

StoredTensor Conversion::WriteStacked(const std::string& name, const std::vector<int64_t>& shape,
                                      const std::vector<float>& values) {
  std::vector<GgufStack> parts = SplitExperts(name, shape, values);
  for (GgufStack& part : parts) {
    const std::string type = part.name.ends_with(".bias") ? "F32" : TypeOfExperts(part.name);
    const std::string bytes = GgmlEncode(type, part.values);
    writer_.Tensor(part.name, GgmlTypeNumber(type), part.shape, bytes);
    part.values = GgmlDecode(type, bytes);
  }
  return {"F32", shape, GgmlEncode("F32", JoinExperts(shape, parts))};
}

void Conversion::WriteTensors(std::map<std::string, StoredTensor>* kept) {
  const std::string file = ReadAllOf(directory_ / "model.safetensors");
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  const Json header = Json::parse(file.substr(8, header_bytes));
  std::map<std::string, Stack> stacks;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    // Test checkpoints have a dense MLP next to the experts, for layers without a mixture; the
    // format has only experts.
    const bool is_dense = name.find(".mlp.") < name.size() && name.ends_with("_proj.weight");
    if (family_.gguf == "qwen3moe" && is_dense && StackOf(name).first.empty()) continue;
    const size_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    const auto values = GgmlDecode(entry["dtype"].get<std::string>(),
                                   file.substr(8 + header_bytes + begin, end - begin));
    const auto shape = entry["shape"].get<std::vector<int64_t>>();
    if (IsStackedExperts(name)) {
      (*kept)[name] = WriteStacked(name, shape, values);
    } else if (const auto [to, expert] = StackOf(name); !to.empty()) {
      stacks[to].shape = shape;
      stacks[to].experts[expert] = {name, values};
    } else {
      (*kept)[name] = WriteTensor(name, shape, values);
    }
  }
  for (const auto& [to, stack] : stacks) WriteStack(to, stack, kept);
}

}  // namespace

Status WriteGguf(const std::filesystem::path& directory, const std::filesystem::path& to,
                 const GgufOptions& options) {
  return Conversion(directory, options).Write(to);
}

}  // namespace outrider
