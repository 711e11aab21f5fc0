#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

Status DescribeLlama(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBeOff(json["use_sliding_window"]));
  LayerDescription layer;
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadMlpBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
