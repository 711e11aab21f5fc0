#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {
namespace {

// Layers that have a mixture: every "decoder_sparse_step"-th, but those of "mlp_only_layers".
Result<std::vector<bool>> ReadSparseLayers(const JsonValue& json, size_t layers) {
  int step = 1;
  OUTRIDER_TRY(json["decoder_sparse_step"].Read(&step, 1));
  std::vector<bool> sparse(layers);
  for (size_t i = 0; i < layers; ++i) sparse[i] = (i + 1) % static_cast<size_t>(step) == 0;
  const JsonValue dense = json["mlp_only_layers"];
  if (dense.is_null()) return sparse;
  OUTRIDER_TRY(dense.MustBeArray());
  for (size_t i = 0; i < dense.size(); ++i) {
    OUTRIDER_ASSIGN(const int layer, dense[i].Int(0, static_cast<int>(layers) - 1));
    sparse[static_cast<size_t>(layer)] = false;
  }
  return sparse;
}

}  // namespace

// Qwen 3 with a mixture of experts in some layers, or all. Transformers has changed which layers
// have a window; no published model has one.
Status DescribeQwen3Moe(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  OUTRIDER_TRY(MustBeOff(json["use_sliding_window"]));
  LayerDescription layer;
  layer.attention.qk_norm = QkNorm::kHeads;
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  MixtureDescription mixture = {.router = {.experts = 128, .top_k = 8, .normalizes = false},
                                .intermediate_size = 768};
  OUTRIDER_TRY(json["norm_topk_prob"].Read(&mixture.router.normalizes));
  OUTRIDER_TRY(ReadMixture(json["num_experts"], json["num_experts_per_tok"],
                           json["moe_intermediate_size"], &mixture));
  OUTRIDER_ASSIGN(const std::vector<bool> sparse, ReadSparseLayers(json, config->layers.size()));
  OUTRIDER_TRY(DescribeAllLayers(json, layer, config));
  for (size_t i = 0; i < sparse.size(); ++i) {
    if (sparse[i]) config->layers[i].mlp.mixture = mixture;
  }
  return Status();
}

}  // namespace outrider
