#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama with biases of q, k and v (and none of o), whatever "attention_bias" says, and a window in
// some layers.
Status DescribeQwen2(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  LayerDescription layer;
  layer.attention.qkv_bias = true;
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  return DescribeLayersWithQwenWindows(json, layer, config);
}

}  // namespace outrider
