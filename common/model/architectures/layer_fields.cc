#include "common/model/architectures/layer_fields.h"

#include <string_view>

namespace outrider {
namespace {

// The "llama3" fields of a rope object.
Status ReadLlama3Scaling(const JsonValue& json, RopeDescription* rope) {
  constexpr double kMaxFactor = 65536;
  Llama3RopeScaling scaling;
  OUTRIDER_TRY(ReadPositive(json["factor"], kMaxFactor, &scaling.factor));
  OUTRIDER_TRY(ReadPositive(json["low_freq_factor"], kMaxFactor, &scaling.low_freq_factor));
  OUTRIDER_TRY(ReadPositive(json["high_freq_factor"], kMaxFactor, &scaling.high_freq_factor));
  OUTRIDER_ASSIGN(scaling.original_max_position_embeddings,
                  json["original_max_position_embeddings"].Int(1, kMaxPositions));
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    return json["low_freq_factor"].Wrong("below high_freq_factor");
  }
  rope->scaling = scaling;
  return Status();
}

}  // namespace

Status ReadRope(const JsonValue& json, RopeDescription* rope) {
  constexpr double kMaxTheta = 1e12;
  if (const JsonValue theta = json["rope_theta"]; !theta.is_null()) {
    OUTRIDER_TRY(ReadPositive(theta, kMaxTheta, &rope->theta));
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const JsonValue within = json[name];
    if (within.is_null()) continue;
    OUTRIDER_TRY(within.MustBeObject());
    if (const JsonValue theta = within["rope_theta"]; !theta.is_null()) {
      OUTRIDER_TRY(ReadPositive(theta, kMaxTheta, &rope->theta));
    }
    OUTRIDER_TRY(MustBe(within["partial_rotary_factor"], 1));
    const JsonValue type = within[within["rope_type"].is_null() ? "type" : "rope_type"];
    if (type.is_null() && std::string_view(name) == "rope_scaling") {
      return within["rope_type"].Wrong("a text");
    }
    if (type.is_null() || type.Is("default")) continue;
    if (!type.Is("llama3")) return type.Unsupported();
    OUTRIDER_TRY(ReadLlama3Scaling(within, rope));
  }
  return Status();
}

Status CheckActivation(const JsonValue& json, const char* name) {
  OUTRIDER_TRY(MustBe(json["hidden_act"], name));
  return MustBe(json["hidden_activation"], name);
}

Status DescribeAllLayers(const JsonValue& json, const LayerDescription& layer,
                         ModelConfig* config) {
  config->layers.assign(config->layers.size(), layer);
  const JsonValue types = json["layer_types"];
  if (types.is_null()) return Status();
  OUTRIDER_TRY(types.MustBeArray());
  const char* expected = layer.attention.window > 0 ? "sliding_attention" : "full_attention";
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i].Is(expected)) return types[i].Unsupported();
  }
  return Status();
}

}  // namespace outrider
