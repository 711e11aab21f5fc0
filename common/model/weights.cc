#include "common/model/weights.h"

#include <string>
#include <utility>

#include "common/model/weight_loader.h"

namespace outrider {
namespace {

using Part = WeightLoader::Part;

// What a rank of a model loads: the whole model, its part, and the loader.
struct Source {
  const ModelConfig& config;
  const Shard& shard;
  WeightLoader& loader;

  // A result that all ranks add to has its bias once.
  bool adds_biases() const { return shard.leads(); }
};

Range Times(Range range, int64_t size) { return {range.first * size, range.count * size}; }
Range After(int64_t offset, Range range) { return {offset + range.first, range.count}; }

// Parts of q, k and v, whose tensors' names end with `kind`.
std::vector<Part> QkvParts(const Source& source, bool fused, const std::string& attention,
                           const std::string& kind) {
  const ModelConfig& config = source.config;
  const int64_t q_rows = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv_rows = int64_t{config.num_kv_heads} * config.head_dim;
  const Range q = source.shard.Of(q_rows);
  const Range kv = Times(source.shard.KvHeadsOf(config), config.head_dim);
  if (fused) {
    return {{attention + "qkv_proj." + kind,
             q_rows + 2 * kv_rows,
             {q, After(q_rows, kv), After(q_rows + kv_rows, kv)}}};
  }
  return {{attention + "q_proj." + kind, q_rows, {q}},
          {attention + "k_proj." + kind, kv_rows, {kv}},
          {attention + "v_proj." + kind, kv_rows, {kv}}};
}

// The attention half of a layer; the names of its tensors begin with `layer`.
Status LoadAttention(const Source& source, const AttentionDescription& described,
                     const std::string& layer, LayerWeights* out) {
  const ModelConfig& config = source.config;
  WeightLoader& loader = source.loader;
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
  OUTRIDER_ASSIGN(
      out->qkv,
      loader.LoadMatrix(QkvParts(source, described.fused_qkv, attention, "weight"), hidden));
  if (described.qkv_bias) {
    OUTRIDER_ASSIGN(out->qkv_bias,
                    loader.LoadVector(QkvParts(source, /*fused=*/false, attention, "bias")));
  }
  if (described.qk_norm != QkNorm::kNone) {
    const bool heads = described.qk_norm == QkNorm::kHeads;
    OUTRIDER_ASSIGN(out->q_norm,
                    loader.LoadNorm(attention + "q_norm", heads ? config.head_dim : q_rows));
    OUTRIDER_ASSIGN(out->k_norm,
                    loader.LoadNorm(attention + "k_norm", heads ? config.head_dim : kv_rows));
  }
  if (described.sinks) {
    OUTRIDER_ASSIGN(
        out->sinks,
        loader.LoadVector(
            {{attention + "sinks", config.num_heads, {source.shard.Of(config.num_heads)}}}));
  }
  OUTRIDER_ASSIGN(out->attention_out, loader.LoadMatrix({{attention + "o_proj.weight", hidden, {}}},
                                                        q_rows, source.shard.Of(q_rows)));
  if (described.out_bias && source.adds_biases()) {
    OUTRIDER_ASSIGN(out->attention_out_bias,
                    loader.LoadVector({{attention + "o_proj.bias", hidden, {}}}));
  }
  return Status();
}

// The experts of gpt-oss as published.
Status LoadStackedExperts(const Source& source, const MixtureDescription& described,
                          const std::string& block, MixtureWeights* out) {
  WeightLoader& loader = source.loader;
  const int64_t hidden = source.config.hidden_size, width = described.intermediate_size;
  const Range inner = source.shard.Of(width);
  const StackedShape gate_up = {.experts = described.router.experts,
                                .rows = 2 * width,
                                .columns = hidden,
                                .interleaved = true};
  const StackedShape down = {.experts = described.router.experts, .rows = hidden, .columns = width};
  const std::vector<Range> gate_up_rows = {inner, After(width, inner)};
  const std::vector<Range> down_rows = {{0, hidden}};
  OUTRIDER_ASSIGN(out->gate_up, loader.LoadStackedExperts(block + "experts.gate_up_proj", gate_up,
                                                          gate_up_rows, {0, hidden}));
  OUTRIDER_ASSIGN(out->gate_up_bias, loader.LoadStackedBiases(block + "experts.gate_up_proj_bias",
                                                              gate_up, gate_up_rows));
  OUTRIDER_ASSIGN(out->down,
                  loader.LoadStackedExperts(block + "experts.down_proj", down, down_rows, inner));
  if (!source.adds_biases()) return Status();
  OUTRIDER_ASSIGN(out->down_bias,
                  loader.LoadStackedBiases(block + "experts.down_proj_bias", down, down_rows));
  return Status();
}

Status LoadMixture(const Source& source, const MixtureDescription& described,
                   const std::string& layer, MixtureWeights* out) {
  WeightLoader& loader = source.loader;
  const std::string block = layer + described.block;
  const int64_t width = described.intermediate_size, hidden = source.config.hidden_size;
  const Range inner = source.shard.Of(width);
  const int experts = described.router.experts;
  OUTRIDER_ASSIGN(out->router,
                  loader.LoadRouter(block + described.router_name + ".weight", experts, hidden));
  if (described.biases) {
    OUTRIDER_ASSIGN(out->router_bias,
                    loader.LoadVector({{block + described.router_name + ".bias", experts, {}}}));
  }
  if (described.stacked) return LoadStackedExperts(source, described, block, out);
  const auto name = [&](int expert, const char* projection) {
    return block + "experts." + std::to_string(expert) + "." + projection;
  };
  OUTRIDER_ASSIGN(out->gate_up, loader.LoadExperts(experts, hidden, [&](int expert) {
    return std::vector<Part>{{name(expert, described.gate) + ".weight", width, {inner}},
                             {name(expert, described.up) + ".weight", width, {inner}}};
  }));
  const auto down = [&](int expert) {
    return std::vector<Part>{{name(expert, described.down) + ".weight", hidden, {}}};
  };
  OUTRIDER_ASSIGN(out->down, loader.LoadExperts(experts, width, down, inner));
  if (!described.biases) return Status();
  std::vector<Part> gate_up_biases, down_biases;
  for (int e = 0; e < experts; ++e) {
    gate_up_biases.push_back({name(e, described.gate) + ".bias", width, {inner}});
    gate_up_biases.push_back({name(e, described.up) + ".bias", width, {inner}});
    down_biases.push_back({name(e, described.down) + ".bias", hidden, {}});
  }
  OUTRIDER_ASSIGN(out->gate_up_bias, loader.LoadVector(gate_up_biases));
  if (!source.adds_biases()) return Status();
  OUTRIDER_ASSIGN(out->down_bias, loader.LoadVector(down_biases));
  return Status();
}

Status LoadMlp(const Source& source, const MlpDescription& described, const std::string& layer,
               LayerWeights* out) {
  WeightLoader& loader = source.loader;
  const std::string mlp = layer + "mlp.";
  const int64_t hidden = source.config.hidden_size;
  const int64_t intermediate = source.config.intermediate_size;
  if (described.norm != nullptr) {
    OUTRIDER_ASSIGN(out->mlp_norm, loader.LoadNorm(layer + described.norm, hidden));
  }
  if (described.norm_after != nullptr) {
    OUTRIDER_ASSIGN(out->mlp_norm_after, loader.LoadNorm(layer + described.norm_after, hidden));
  }
  if (described.mixture) return LoadMixture(source, *described.mixture, layer, &out->mixture);
  const Range inner = source.shard.Of(intermediate);
  std::vector<Part> parts = {{mlp + "gate_proj.weight", intermediate, {inner}},
                             {mlp + "up_proj.weight", intermediate, {inner}}};
  if (described.fused_gate_up) {
    parts = {{mlp + "gate_up_proj.weight", 2 * intermediate, {inner, After(intermediate, inner)}}};
  }
  OUTRIDER_ASSIGN(out->gate_up, loader.LoadMatrix(parts, hidden));
  OUTRIDER_ASSIGN(out->down,
                  loader.LoadMatrix({{mlp + "down_proj.weight", hidden, {}}}, intermediate, inner));
  if (!described.bias) return Status();
  OUTRIDER_ASSIGN(out->gate_up_bias,
                  loader.LoadVector({{mlp + "gate_proj.bias", intermediate, {inner}},
                                     {mlp + "up_proj.bias", intermediate, {inner}}}));
  if (!source.adds_biases()) return Status();
  OUTRIDER_ASSIGN(out->down_bias, loader.LoadVector({{mlp + "down_proj.bias", hidden, {}}}));
  return Status();
}

Result<LayerWeights> LoadLayer(const Source& source, int index) {
  const LayerDescription& described = source.config.layers[static_cast<size_t>(index)];
  const std::string layer = "model.layers." + std::to_string(index) + ".";
  LayerWeights out;
  OUTRIDER_TRY(LoadAttention(source, described.attention, layer, &out));
  OUTRIDER_TRY(LoadMlp(source, described.mlp, layer, &out));
  return out;
}

}  // namespace

Result<Weights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                            WeightType type, Backend& backend, const LoadProgress& progress,
                            const Shard& shard) {
  WeightLoader loader(config, checkpoint, type, backend, progress);
  const Source source = {config, shard, loader};
  const int64_t hidden = config.hidden_size, vocabulary = config.vocab_size;
  constexpr char kEmbedding[] = "model.embed_tokens.weight";
  Weights weights;
  OUTRIDER_ASSIGN(weights.embedding, loader.LoadTokenTable({kEmbedding, vocabulary, {}}, hidden));
  for (int i = 0; i < config.num_layers(); ++i) {
    OUTRIDER_ASSIGN(LayerWeights layer, LoadLayer(source, i));
    weights.layers.push_back(std::move(layer));
  }
  OUTRIDER_ASSIGN(weights.final_norm, loader.LoadNorm("model.norm", hidden));
  // A rank's part of the head is a matrix of its own, also where the embedding is the head.
  if (!config.tied_embeddings || shard.ranks > 1) {
    const char* const name = config.tied_embeddings ? kEmbedding : "lm_head.weight";
    OUTRIDER_ASSIGN(weights.head,
                    loader.LoadTokenTable({name, vocabulary, {shard.LogitsOf(config)}}, hidden));
  }
  loader.LogTypes();
  return weights;
}

}  // namespace outrider
