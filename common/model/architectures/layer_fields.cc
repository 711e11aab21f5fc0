#include "common/model/architectures/layer_fields.h"

#include <nlohmann/json.hpp>
#include <string_view>

namespace outrider {
namespace {

using Json = nlohmann::json;

// The "llama3" fields of a rope object.
Status ReadLlama3Scaling(const ConfigFields& fields, RopeDescription* rope) {
  constexpr double kMaxFactor = 65536;
  Llama3RopeScaling scaling;
  OUTRIDER_TRY(fields.Positive("factor", kMaxFactor, &scaling.factor));
  OUTRIDER_TRY(fields.Positive("low_freq_factor", kMaxFactor, &scaling.low_freq_factor));
  OUTRIDER_TRY(fields.Positive("high_freq_factor", kMaxFactor, &scaling.high_freq_factor));
  OUTRIDER_TRY(fields.Integer("original_max_position_embeddings", 1, kMaxPositions,
                              &scaling.original_max_position_embeddings));
  if (!(scaling.low_freq_factor < scaling.high_freq_factor)) {
    return fields.Bad("low_freq_factor", "is not below high_freq_factor");
  }
  rope->scaling = scaling;
  return Status();
}

}  // namespace

Status ReadRope(const ConfigFields& fields, RopeDescription* rope) {
  constexpr double kMaxTheta = 1e12;
  if (fields.Find("rope_theta") != nullptr) {
    OUTRIDER_TRY(fields.Positive("rope_theta", kMaxTheta, &rope->theta));
  }
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* value = fields.Find(name);
    if (value == nullptr) continue;
    if (!value->is_object()) return fields.Bad(name, "is not an object");
    const ConfigFields within(*value, fields.where() + ": " + name);
    if (within.Find("rope_theta") != nullptr) {
      OUTRIDER_TRY(within.Positive("rope_theta", kMaxTheta, &rope->theta));
    }
    OUTRIDER_TRY(within.MustBe("partial_rotary_factor", 1));
    const Json* type = within.Find("rope_type");
    if (type == nullptr) type = within.Find("type");
    if (type == nullptr && std::string_view(name) == "rope_scaling") {
      return within.Bad("rope_type", "is missing");
    }
    if (type == nullptr || *type == "default") continue;
    if (*type != "llama3") return within.Unsupported("rope_type", *type);
    OUTRIDER_TRY(ReadLlama3Scaling(within, rope));
  }
  return Status();
}

Status CheckActivation(const ConfigFields& fields, const char* name) {
  OUTRIDER_TRY(fields.MustBe("hidden_act", name));
  return fields.MustBe("hidden_activation", name);
}

Status DescribeAllLayers(const ConfigFields& fields, const LayerDescription& layer,
                         ModelConfig* config) {
  config->layers.assign(config->layers.size(), layer);
  const Json* types = fields.Find("layer_types");
  if (types == nullptr) return Status();
  if (!types->is_array()) return fields.Bad("layer_types", "is not a list");
  const char* expected = layer.attention.window > 0 ? "sliding_attention" : "full_attention";
  for (const Json& type : *types) {
    if (type != expected) return fields.Unsupported("layer_types", type);
  }
  return Status();
}

}  // namespace outrider
