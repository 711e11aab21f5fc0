#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama with biases of q, k and v (and none of o), whatever "attention_bias" says.
Status DescribeQwen2(const ConfigFields& fields, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(fields, "silu"));
  OUTRIDER_TRY(fields.MustBeOff("use_sliding_window"));
  LayerDescription layer;
  layer.attention.qkv_bias = true;
  OUTRIDER_TRY(ReadRope(fields, &layer.attention.rope));
  return DescribeAllLayers(fields, layer, config);
}

}  // namespace outrider
