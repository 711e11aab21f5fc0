#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama whose heads of q and k are normalised.
Status DescribeQwen3(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["attention_bias"]));
  OUTRIDER_TRY(MustBeOff(json["use_sliding_window"]));
  LayerDescription layer;
  layer.attention.qk_norm = true;
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
