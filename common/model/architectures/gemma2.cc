#include "common/model/architectures/architecture.h"
#include "common/model/architectures/gemma_fields.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {

// Gemma 2 (2024, "Improving Open Language Models at a Practical Size"): soft caps of scores and
// logits, and by default a window in every other layer, starting with the first.
Status DescribeGemma2(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "gelu_pytorch_tanh"));
  OUTRIDER_TRY(MustBeOff(json["mlp_bias"]));
  OUTRIDER_TRY(MustBeOff(json["use_bidirectional_attention"]));
  LayerDescription layer = GemmaLayer();
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  OUTRIDER_TRY(ReadSoftCap(json["attn_logit_softcapping"], 50, &layer.attention.soft_cap));
  OUTRIDER_TRY(ReadSoftCap(json["final_logit_softcapping"], 30, &config->logit_soft_cap));
  OUTRIDER_TRY(ReadQueryScalar(json["query_pre_attn_scalar"], &layer.attention.query_scalar));
  int window = 0;
  OUTRIDER_TRY(ReadGemmaWindow(json["sliding_window"], &window));
  OUTRIDER_ASSIGN(const std::vector<bool> slides,
                  ReadSlidingLayers(json["layer_types"], config->layers.size(),
                                    [](size_t i) { return i % 2 == 0; }));
  for (size_t i = 0; i < slides.size(); ++i) {
    config->layers[i] = layer;
    config->layers[i].attention.window = slides[i] ? window : 0;
  }
  return DescribeGemmaModel(json, config);
}

}  // namespace outrider
