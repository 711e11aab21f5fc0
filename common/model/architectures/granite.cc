#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {
namespace {

// 1 if config.json has none. The range keeps squares and quotients of two far within float's range.
Result<float> ReadMultiplier(const JsonValue& field) {
  constexpr double kMin = 1e-4, kMax = 1e4;
  if (field.is_null()) return 1.f;
  OUTRIDER_ASSIGN(const double multiplier, field.Number(kMin, kMax));
  return static_cast<float>(multiplier);
}

}  // namespace

// Granite 3: Llama whose embeddings, scores, results of each half of a layer and logits are
// multiplied by constants.
Status DescribeGranite(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  LayerDescription layer;
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadMlpBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  OUTRIDER_ASSIGN(const float embedding_multiplier, ReadMultiplier(json["embedding_multiplier"]));
  OUTRIDER_ASSIGN(const float attention_multiplier, ReadMultiplier(json["attention_multiplier"]));
  OUTRIDER_ASSIGN(const float residual_multiplier, ReadMultiplier(json["residual_multiplier"]));
  OUTRIDER_ASSIGN(const float logits_scaling, ReadMultiplier(json["logits_scaling"]));
  layer.attention.query_scalar = 1 / (attention_multiplier * attention_multiplier);
  config->logit_scale = 1 / logits_scaling;
  // If the residual stream is kept divided by its multiplier, the result of each half is added to
  // it unchanged. Only norms read the stream, and x / m has the norm of x if epsilon is divided by
  // m^2.
  config->embedding_scale = embedding_multiplier / residual_multiplier;
  config->rms_norm_eps /= residual_multiplier * residual_multiplier;
  return DescribeAllLayers(json, layer, config);
}

}  // namespace outrider
