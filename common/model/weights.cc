#include "common/model/weights.h"

#include <string>
#include <utility>

#include "common/model/weight_loader.h"

namespace outrider {
namespace {

using Part = WeightLoader::Part;

// The attention half of a layer; the names of its tensors begin with `layer`.
Status LoadAttention(const ModelConfig& config, const AttentionDescription& described,
                     const std::string& layer, WeightLoader& loader, LayerWeights* out) {
  const std::string attention = layer + "self_attn.";
  const int64_t hidden = config.hidden_size;
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  if (described.norm != nullptr) {
    OUTRIDER_ASSIGN(out->attention_norm, loader.LoadNorm(layer + described.norm, hidden));
  }
  if (described.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out->attention_norm_after,
                    loader.LoadNorm(layer + described.norm_after, hidden));
  }
  std::vector<Part> parts = {{attention + "q_proj.weight", q_rows},
                             {attention + "k_proj.weight", kv_rows},
                             {attention + "v_proj.weight", kv_rows}};
  if (described.fused_qkv) parts = {{attention + "qkv_proj.weight", q_rows + 2 * kv_rows}};
  OUTRIDER_ASSIGN(out->qkv, loader.LoadMatrix(parts, hidden));
  if (described.qkv_bias) {
    OUTRIDER_ASSIGN(out->qkv_bias, loader.LoadVector({{attention + "q_proj.bias", q_rows},
                                                      {attention + "k_proj.bias", kv_rows},
                                                      {attention + "v_proj.bias", kv_rows}}));
  }
  if (described.qk_norm != QkNorm::kNone) {
    const bool heads = described.qk_norm == QkNorm::kHeads;
    OUTRIDER_ASSIGN(out->q_norm,
                    loader.LoadNorm(attention + "q_norm", heads ? config.head_dim : q_rows));
    OUTRIDER_ASSIGN(out->k_norm,
                    loader.LoadNorm(attention + "k_norm", heads ? config.head_dim : kv_rows));
  }
  if (described.sinks) {
    OUTRIDER_ASSIGN(out->sinks, loader.LoadVector({{attention + "sinks", config.num_heads}}));
  }
  OUTRIDER_ASSIGN(out->attention_out,
                  loader.LoadMatrix(attention + "o_proj.weight", hidden, q_rows));
  if (described.out_bias) {
    OUTRIDER_ASSIGN(out->attention_out_bias,
                    loader.LoadVector({{attention + "o_proj.bias", hidden}}));
  }
  return Status();
}

// The experts of gpt-oss as published.
Status LoadStackedExperts(const MixtureDescription& described, int64_t hidden,
                          const std::string& block, WeightLoader& loader, MixtureWeights* out) {
  const StackedShape gate_up = {.experts = described.router.experts,
                                .rows = int64_t{2} * described.intermediate_size,
                                .columns = hidden,
                                .interleaved = true};
  const StackedShape down = {
      .experts = described.router.experts, .rows = hidden, .columns = described.intermediate_size};
  OUTRIDER_ASSIGN(out->gate_up, loader.LoadStackedExperts(block + "experts.gate_up_proj", gate_up));
  OUTRIDER_ASSIGN(out->gate_up_bias,
                  loader.LoadStackedBiases(block + "experts.gate_up_proj_bias", gate_up));
  OUTRIDER_ASSIGN(out->down, loader.LoadStackedExperts(block + "experts.down_proj", down));
  OUTRIDER_ASSIGN(out->down_bias, loader.LoadStackedBiases(block + "experts.down_proj_bias", down));
  return Status();
}

Status LoadMixture(const MixtureDescription& described, int64_t hidden, const std::string& layer,
                   WeightLoader& loader, MixtureWeights* out) {
  const std::string block = layer + described.block;
  const int64_t width = described.intermediate_size;
  const int experts = described.router.experts;
  OUTRIDER_ASSIGN(out->router,
                  loader.LoadRouter(block + described.router_name + ".weight", experts, hidden));
  if (described.biases) {
    OUTRIDER_ASSIGN(out->router_bias,
                    loader.LoadVector({{block + described.router_name + ".bias", experts}}));
  }
  if (described.stacked) return LoadStackedExperts(described, hidden, block, loader, out);
  const auto name = [&](int expert, const char* projection) {
    return block + "experts." + std::to_string(expert) + "." + projection;
  };
  OUTRIDER_ASSIGN(out->gate_up, loader.LoadExperts(experts, hidden, [&](int expert) {
    return std::vector<Part>{{name(expert, described.gate) + ".weight", width},
                             {name(expert, described.up) + ".weight", width}};
  }));
  OUTRIDER_ASSIGN(out->down, loader.LoadExperts(experts, width, [&](int expert) {
    return std::vector<Part>{{name(expert, described.down) + ".weight", hidden}};
  }));
  if (!described.biases) return Status();
  std::vector<std::pair<std::string, int64_t>> gate_up, down;
  for (int e = 0; e < experts; ++e) {
    gate_up.emplace_back(name(e, described.gate) + ".bias", width);
    gate_up.emplace_back(name(e, described.up) + ".bias", width);
    down.emplace_back(name(e, described.down) + ".bias", hidden);
  }
  OUTRIDER_ASSIGN(out->gate_up_bias, loader.LoadVector(gate_up));
  OUTRIDER_ASSIGN(out->down_bias, loader.LoadVector(down));
  return Status();
}

Status LoadMlp(const ModelConfig& config, const MlpDescription& described, const std::string& layer,
               WeightLoader& loader, LayerWeights* out) {
  const std::string mlp = layer + "mlp.";
  const int64_t hidden = config.hidden_size;
  const int64_t intermediate = config.intermediate_size;
  if (described.norm != nullptr) {
    OUTRIDER_ASSIGN(out->mlp_norm, loader.LoadNorm(layer + described.norm, hidden));
  }
  if (described.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out->mlp_norm_after, loader.LoadNorm(layer + described.norm_after, hidden));
  }
  if (described.mixture) {
    return LoadMixture(*described.mixture, hidden, layer, loader, &out->mixture);
  }
  std::vector<Part> parts = {{mlp + "gate_proj.weight", intermediate},
                             {mlp + "up_proj.weight", intermediate}};
  if (described.fused_gate_up) parts = {{mlp + "gate_up_proj.weight", 2 * intermediate}};
  OUTRIDER_ASSIGN(out->gate_up, loader.LoadMatrix(parts, hidden));
  OUTRIDER_ASSIGN(out->down, loader.LoadMatrix(mlp + "down_proj.weight", hidden, intermediate));
  if (!described.bias) return Status();
  OUTRIDER_ASSIGN(out->gate_up_bias, loader.LoadVector({{mlp + "gate_proj.bias", intermediate},
                                                        {mlp + "up_proj.bias", intermediate}}));
  OUTRIDER_ASSIGN(out->down_bias, loader.LoadVector({{mlp + "down_proj.bias", hidden}}));
  return Status();
}

Result<LayerWeights> LoadLayer(const ModelConfig& config, int index, WeightLoader& loader) {
  const LayerDescription& described = config.layers[static_cast<size_t>(index)];
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  LayerWeights out;
  OUTRIDER_TRY(LoadAttention(config, described.attention, layer, loader, &out));
  OUTRIDER_TRY(LoadMlp(config, described.mlp, layer, loader, &out));
  return out;
}

}  // namespace

Result<Weights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                            WeightType type, Backend& backend, const LoadProgress& progress) {
  WeightLoader loader(config, checkpoint, type, backend, progress);
  Weights weights;
  OUTRIDER_ASSIGN(weights.embedding, loader.LoadTokenTable("model.embed_tokens.weight",
                                                           config.vocab_size, config.hidden_size));
  for (int i = 0; i < config.num_layers(); ++i) {
    OUTRIDER_ASSIGN(LayerWeights layer, LoadLayer(config, i, loader));
    weights.layers.push_back(std::move(layer));
  }
  OUTRIDER_ASSIGN(weights.final_norm, loader.LoadNorm("model.norm", config.hidden_size));
  if (!config.tied_embeddings) {
    OUTRIDER_ASSIGN(weights.head,
                    loader.LoadTokenTable("lm_head.weight", config.vocab_size, config.hidden_size));
  }
  loader.LogTypes();
  return weights;
}

}  // namespace outrider
