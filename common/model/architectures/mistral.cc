#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama with one window for all layers, or none (null; Mistral 7B v0.1: 4096).
Status DescribeMistral(const ConfigFields& fields, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(fields, "silu"));
  OUTRIDER_TRY(fields.MustBeOff("attention_bias"));
  LayerDescription layer;
  OUTRIDER_TRY(ReadRope(fields, &layer.attention.rope));
  OUTRIDER_TRY(fields.Integer("sliding_window", 1, kMaxPositions, 0, &layer.attention.window));
  return DescribeAllLayers(fields, layer, config);
}

}  // namespace outrider
