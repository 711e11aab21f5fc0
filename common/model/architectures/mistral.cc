#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama with one window for all layers, or none (null; Mistral 7B v0.1: 4096).
Status DescribeMistral(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["attention_bias"]));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  LayerDescription layer;
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  if (json["sliding_window"].absent()) layer.attention.window = 4096;
  OUTRIDER_TRY(json["sliding_window"].Read(&layer.attention.window, 1, kMaxPositions));
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
