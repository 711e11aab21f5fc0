#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// OLMo 2 (2024, "2 OLMo 2 Furious", section 2.1): norms of the result of each half of a layer and
// none of its input, and one norm over all heads of q, another over those of k.
Status DescribeOlmo2(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  LayerDescription layer;
  layer.attention.norm = nullptr;
  layer.attention.norm_after = "post_attention_layernorm";
  layer.attention.qk_norm = QkNorm::kProjection;
  layer.mlp.norm = nullptr;
  layer.mlp.norm_after = "post_feedforward_layernorm";
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
