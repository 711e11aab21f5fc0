#include "common/model/architectures/gguf_architecture.h"

#include <vector>

#include "common/base/printable.h"

namespace outrider {
namespace {

constexpr GgufNamePair kAttentionAndMlp[] = {
    {"attn_q", "self_attn.q_proj"}, {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"}, {"attn_output", "self_attn.o_proj"},
    {"ffn_gate", "mlp.gate_proj"},  {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr GgufNamePair kFused[] = {{"attn_qkv", "self_attn.qkv_proj"},
                                   {"attn_output", "self_attn.o_proj"},
                                   {"ffn_up", "mlp.gate_up_proj"},
                                   {"ffn_down", "mlp.down_proj"}};
// "*" is an expert's number: the tensor has all experts of a layer.
constexpr GgufNamePair kMixtral[] = {{"attn_q", "self_attn.q_proj"},
                                     {"attn_k", "self_attn.k_proj"},
                                     {"attn_v", "self_attn.v_proj"},
                                     {"attn_output", "self_attn.o_proj"},
                                     {"ffn_gate_inp", "block_sparse_moe.gate"},
                                     {"ffn_gate_exps", "block_sparse_moe.experts.*.w1"},
                                     {"ffn_up_exps", "block_sparse_moe.experts.*.w3"},
                                     {"ffn_down_exps", "block_sparse_moe.experts.*.w2"}};
constexpr GgufNamePair kQwen3Moe[] = {{"attn_q", "self_attn.q_proj"},
                                      {"attn_k", "self_attn.k_proj"},
                                      {"attn_v", "self_attn.v_proj"},
                                      {"attn_output", "self_attn.o_proj"},
                                      {"ffn_gate_inp", "mlp.gate"},
                                      {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
                                      {"ffn_up_exps", "mlp.experts.*.up_proj"},
                                      {"ffn_down_exps", "mlp.experts.*.down_proj"}};
constexpr GgufNamePair kGptOss[] = {
    {"attn_q", "self_attn.q_proj"},           {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},           {"attn_output", "self_attn.o_proj"},
    {"ffn_gate_inp", "mlp.router"},           {"ffn_gate_exps", "mlp.experts.*.gate_proj"},
    {"ffn_up_exps", "mlp.experts.*.up_proj"}, {"ffn_down_exps", "mlp.experts.*.down_proj"}};
constexpr GgufNamePair kNormsBefore[] = {{"attn_norm", "input_layernorm"},
                                         {"ffn_norm", "post_attention_layernorm"}};
constexpr GgufNamePair kNormsAfter[] = {{"post_attention_norm", "post_attention_layernorm"},
                                        {"post_ffw_norm", "post_feedforward_layernorm"}};
constexpr GgufNamePair kNormsOfGptOss[] = {{"attn_norm", "input_layernorm"},
                                           {"post_attention_norm", "post_attention_layernorm"}};
constexpr GgufNamePair kNormsAround[] = {{"attn_norm", "input_layernorm"},
                                         {"post_attention_norm", "post_attention_layernorm"},
                                         {"ffn_norm", "pre_feedforward_layernorm"},
                                         {"post_ffw_norm", "post_feedforward_layernorm"}};

constexpr GgufArchitecture kGgufArchitectures[] = {
    {"llama", "LlamaForCausalLM", kAttentionAndMlp, kNormsBefore, false, true, GgufBiases::kAll},
    {"qwen2", "Qwen2ForCausalLM", kAttentionAndMlp, kNormsBefore, false, false, GgufBiases::kQkv},
    {"qwen3", "Qwen3ForCausalLM", kAttentionAndMlp, kNormsBefore, true, false,
     GgufBiases::kAttention},
    {"gemma2", "Gemma2ForCausalLM", kAttentionAndMlp, kNormsAround, false, false,
     GgufBiases::kAttention},
    {"gemma3", "Gemma3ForCausalLM", kAttentionAndMlp, kNormsAround, true, false,
     GgufBiases::kAttention},
    {"phi3", "Phi3ForCausalLM", kFused, kNormsBefore, false, false, GgufBiases::kNone},
    {"olmo2", "Olmo2ForCausalLM", kAttentionAndMlp, kNormsAfter, true, false,
     GgufBiases::kAttention},
    {"granite", "GraniteForCausalLM", kAttentionAndMlp, kNormsBefore, false, true,
     GgufBiases::kAll},
    {"smollm3", "SmolLM3ForCausalLM", kAttentionAndMlp, kNormsBefore, false, true,
     GgufBiases::kAll},
    {"llama", "MixtralForCausalLM", kMixtral, kNormsBefore, false, true, GgufBiases::kNone,
     /*mixture=*/true},
    {"qwen3moe", "Qwen3MoeForCausalLM", kQwen3Moe, kNormsBefore, true, false, GgufBiases::kNone,
     /*mixture=*/true},
    {"gpt-oss", "GptOssForCausalLM", kGptOss, kNormsOfGptOss, false, false, GgufBiases::kAll,
     /*mixture=*/true}};

std::string NamesOf(bool mixtures) {
  std::string names;
  for (const GgufArchitecture& known : kGgufArchitectures) {
    if (known.mixture != mixtures) continue;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return names;
}

}  // namespace

bool IsGgufGemma(const GgufArchitecture& architecture) {
  return architecture.name.starts_with("gemma");
}

bool IsGgufGptOss(const GgufArchitecture& architecture) { return architecture.name == "gpt-oss"; }

Result<const GgufArchitecture*> FindGgufArchitecture(const GgufFile& file) {
  if (file.Has("general.type")) {
    OUTRIDER_ASSIGN(const std::string_view type, file.Text("general.type"));
    if (type != "model") {
      return file.Unsupported("general.type", "is " + Printable(type) + ", not a model");
    }
  }
  if (file.Has("split.count")) {
    OUTRIDER_ASSIGN(const int64_t parts, file.Int("split.count", 0, kMostOfAGgufSize));
    if (parts > 1) {
      return file.Unsupported("split.count", "is " + std::to_string(parts) +
                                                 ": the model is in several files; join them with "
                                                 "llama-gguf-split --merge");
    }
  }
  OUTRIDER_ASSIGN(const std::string_view name, file.Text("general.architecture"));
  OUTRIDER_ASSIGN(const std::optional<int64_t> experts,
                  file.MaybeInt(std::string(name) + ".expert_count", 0, kMostOfAGgufSize));
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

std::optional<GgufLayerName> SplitGgufName(std::string_view name) {
  if (!name.starts_with("blk.")) return std::nullopt;
  name.remove_prefix(4);
  const size_t dot = name.find('.'), last = name.rfind('.');
  if (dot == std::string_view::npos || last <= dot) return std::nullopt;
  return GgufLayerName{name.substr(0, dot), name.substr(dot + 1, last - dot - 1),
                       name.substr(last)};
}

Result<int64_t> SharedGgufInt(const GgufFile& file, const std::string& key) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end() || found->second.type != GgufValue::Type::kArray) {
    return file.Int(key, 1, kMostOfAGgufSize);
  }
  OUTRIDER_ASSIGN(const std::vector<int64_t> numbers, file.Ints(key));
  if (numbers.empty() || numbers.front() < 1 || numbers.front() > kMostOfAGgufSize) {
    return file.Wrong(key, "must be positive integers");
  }
  for (const int64_t number : numbers) {
    if (number != numbers.front()) return file.Unsupported(key, "differs from layer to layer");
  }
  return numbers.front();
}

}  // namespace outrider
