#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {
namespace {

// Whether each layer rotates: "no_rope_layers" has a 1 for those that do. If it is absent, every
// "no_rope_layer_interval"-th layer does not.
Result<std::vector<bool>> ReadRotatingLayers(const JsonValue& json, size_t layers) {
  int interval = 4;
  OUTRIDER_TRY(json["no_rope_layer_interval"].Read(&interval, 1));
  const JsonValue list = json["no_rope_layers"];
  if (!list.is_null() && (!list.is_array() || list.size() != layers)) {
    return list.Wrong("a list of num_hidden_layers numbers");
  }
  std::vector<bool> rotates(layers);
  for (size_t i = 0; i < layers; ++i) {
    int rotate = (i + 1) % static_cast<size_t>(interval) != 0 ? 1 : 0;
    if (!list.is_null()) {
      OUTRIDER_ASSIGN(rotate, list[i].Int(0, 1));
    }
    rotates[i] = rotate == 1;
  }
  return rotates;
}

}  // namespace

// Llama without RoPE in some layers (Yang et al. 2025, "Rope to Nope and Back Again"), which may
// have a window.
Status DescribeSmolLm3(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  LayerDescription layer;
  layer.attention.rope.theta = 2e6f;
  OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadMlpBias(json, &layer));
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  const size_t layers = config->layers.size();
  OUTRIDER_ASSIGN(const std::vector<bool> rotates, ReadRotatingLayers(json, layers));
  bool used = false;
  OUTRIDER_TRY(json["use_sliding_window"].Read(&used));
  int window = 0;
  OUTRIDER_TRY(json["sliding_window"].Read(&window, 1, kMaxPositions));
  if (!used) window = 0;
  const JsonValue types = json["layer_types"];
  OUTRIDER_ASSIGN(const std::vector<bool> slides, ReadSlidingLayers(types, layers, [&](size_t i) {
                    return window > 0 && !rotates[i];
                  }));
  for (size_t i = 0; i < layers; ++i) {
    if (slides[i] && window == 0) {
      return types[i].Unsupported(" without use_sliding_window and sliding_window");
    }
    config->layers[i] = layer;
    config->layers[i].attention.window = slides[i] ? window : 0;
    if (!rotates[i]) config->layers[i].attention.rope = RopeDescription();
  }
  config->tied_embeddings = true;
  return Status();
}

}  // namespace outrider
