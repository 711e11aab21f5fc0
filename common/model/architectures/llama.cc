#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

Status DescribeLlama(const ConfigFields& fields, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(fields, "silu"));
  OUTRIDER_TRY(fields.MustBeOff("attention_bias"));
  OUTRIDER_TRY(fields.MustBeOff("use_sliding_window"));
  LayerDescription layer;
  OUTRIDER_TRY(ReadRope(fields, &layer.attention.rope));
  return DescribeAllLayers(fields, layer, config);
}

}  // namespace outrider
