#include "common/model/architectures/architecture.h"
#include "common/model/architectures/gemma_fields.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {
namespace {

struct Ropes {
  RopeDescription local;   // of layers with a window
  RopeDescription global;  // of the others
};

// Up to Transformers 4, "rope_theta" and "rope_scaling" are for the global layers and
// "rope_local_base_freq" for the local ones; from 5 on, "rope_parameters" has an object for each.
Result<Ropes> ReadRopes(const JsonValue& json, ModelConfig* config) {
  Ropes ropes;
  OUTRIDER_TRY(ReadRotaryDims(json, *config, &ropes.local));
  ropes.global = ropes.local;
  ropes.global.theta = 1e6f;
  OUTRIDER_TRY(ReadRopeTheta(json["rope_local_base_freq"], &ropes.local));
  OUTRIDER_TRY(ReadRopeTheta(json["rope_theta"], &ropes.global));
  OUTRIDER_TRY(ReadRopeObject(json, json["rope_scaling"], config, &ropes.global));
  const JsonValue parameters = json["rope_parameters"];
  if (parameters.is_null()) return ropes;
  OUTRIDER_TRY(parameters.AllowOnly({"full_attention", "sliding_attention"}));
  OUTRIDER_TRY(ReadRopeObject(json, parameters["full_attention"], config, &ropes.global));
  OUTRIDER_TRY(ReadRopeObject(json, parameters["sliding_attention"], config, &ropes.local));
  return ropes;
}

}  // namespace

// The text models of Gemma 3 (2025, "Gemma 3 Technical Report", section 2): heads of q and k are
// normalised; for each layer without a window there are five with one, which have their own RoPE.
Status DescribeGemma3(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "gelu_pytorch_tanh"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  OUTRIDER_TRY(MustBeOff(json["use_bidirectional_attention"]));
  // Transformers 4 reads it but does not apply it.
  if (const JsonValue cap = json["attn_logit_softcapping"]; !cap.is_null()) {
    return cap.Unsupported("; supported: null");
  }
  LayerDescription layer = GemmaLayer();
  layer.attention.qk_norm = QkNorm::kHeads;
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadSoftCap(json["final_logit_softcapping"], 0, &config->logit_soft_cap));
  OUTRIDER_TRY(ReadQueryScalar(json["query_pre_attn_scalar"], &layer.attention.query_scalar));
  OUTRIDER_ASSIGN(const Ropes ropes, ReadRopes(json, config));
  int window = 0, pattern = 6;
  OUTRIDER_TRY(ReadGemmaWindow(json["sliding_window"], &window));
  OUTRIDER_TRY(json["sliding_window_pattern"].Read(&pattern, 1));
  OUTRIDER_ASSIGN(const std::vector<bool> slides,
                  ReadSlidingLayers(json["layer_types"], config->layers.size(), [&](size_t i) {
                    return (i + 1) % static_cast<size_t>(pattern) != 0;
                  }));
  for (size_t i = 0; i < slides.size(); ++i) {
    config->layers[i] = layer;
    config->layers[i].attention.window = slides[i] ? window : 0;
    config->layers[i].attention.rope = slides[i] ? ropes.local : ropes.global;
  }
  return DescribeGemmaModel(json, config);
}

}  // namespace outrider
