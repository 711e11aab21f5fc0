#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama with normalised heads of q and k, and a window in some layers.
Status DescribeQwen3(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  LayerDescription layer;
  layer.attention.qk_norm = QkNorm::kHeads;
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  return DescribeLayersWithQwenWindows(json, layer, config);
}

}  // namespace outrider
