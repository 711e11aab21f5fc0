#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Llama whose heads of q and k are normalised.
Status DescribeQwen3(const ConfigFields& fields, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(fields, "silu"));
  OUTRIDER_TRY(fields.MustBeOff("attention_bias"));
  OUTRIDER_TRY(fields.MustBeOff("use_sliding_window"));
  LayerDescription layer;
  layer.attention.qk_norm = true;
  OUTRIDER_TRY(ReadRope(fields, &layer.attention.rope));
  return DescribeAllLayers(fields, layer, config);
}

}  // namespace outrider
