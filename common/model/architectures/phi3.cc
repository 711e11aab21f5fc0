#include <variant>

#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Phi-3 and Phi-4: Llama with fused projections. The small models with long contexts have LongRoPE;
// Phi-4 mini rotates three quarters of each head.
Status DescribePhi3(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["attention_bias"]));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  LayerDescription layer;
  layer.attention.fused_qkv = true;
  layer.mlp.fused_gate_up = true;
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  // Transformers treats Phi-3's "yarn" as LongRoPE; no published file uses it.
  if (std::holds_alternative<YarnRopeScaling>(layer.attention.rope.scaling)) {
    return json["rope_scaling"].Unsupported(" with the type \"yarn\"; supported: longrope");
  }
  OUTRIDER_TRY(json["sliding_window"].Read(&layer.attention.window, 1, kMaxPositions));
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
