#include <string>
#include <vector>

#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {
namespace {

// The layers with a mixture: every "decoder_sparse_step"-th, except those in "mlp_only_layers".
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

// The window of all layers, or none. Transformers 4.51 applies it to the layers from
// "max_window_layers" on, later versions to every layer: they agree if that is 0.
Status ReadWindowOfAll(const JsonValue& json, int* window) {
  const JsonValue use = json["use_sliding_window"];
  bool used = false;
  OUTRIDER_TRY(use.Read(&used));
  int size = json["sliding_window"].absent() ? 4096 : 0;
  OUTRIDER_TRY(json["sliding_window"].Read(&size, 1, kMaxPositions));
  if (!used || size == 0) return Status();
  int first = 28;
  OUTRIDER_TRY(json["max_window_layers"].Read(&first, 0));
  if (first != 0) {
    return use.Unsupported(" with max_window_layers of " + std::to_string(first) +
                           ": versions of Transformers differ in which layers have the window; "
                           "set it to 0 if all have it");
  }
  *window = size;
  return Status();
}

}  // namespace

// Qwen 3 with a mixture of experts in some layers, or all.
Status DescribeQwen3Moe(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  LayerDescription layer;
  OUTRIDER_TRY(ReadWindowOfAll(json, &layer.attention.window));
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
