#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Mistral with a mixture of experts in every layer; the weights of the chosen experts sum to 1.
Status DescribeMixtral(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["attention_bias"]));
  LayerDescription layer;
  layer.attention.rope.theta = 1e6f;
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  OUTRIDER_TRY(json["sliding_window"].Read(&layer.attention.window, 1, kMaxPositions));
  MixtureDescription mixture = {.router = {.experts = 8, .top_k = 2},
                                .block = "block_sparse_moe.",
                                .gate = "w1",
                                .up = "w3",
                                .down = "w2"};
  OUTRIDER_TRY(ReadMixture(json["num_local_experts"], json["num_experts_per_tok"],
                           json["intermediate_size"], &mixture));
  layer.mlp.mixture = mixture;
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
