#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"

namespace outrider {
namespace {

// Transformers fills in YaRN parameters of its own if there are none, whatever the context length.
Status ReadGptOssRope(const JsonValue& json, ModelConfig* config, RopeDescription* rope) {
  if (json["rope_scaling"].absent() && json["rope_parameters"].absent()) {
    return json["rope_scaling"].Wrong("an object, or null for none");
  }
  rope->theta = 150000.f;
  return ReadRope(json, config, rope);
}

}  // namespace

// gpt-oss: a mixture in every layer, biases everywhere, one sink per head, a window in every other
// layer.
Status DescribeGptOss(const JsonValue& json, ModelConfig* config) {
  using Layout = Quantization::Layout;
  OUTRIDER_TRY(CheckActivation(json, "silu"));
  OUTRIDER_TRY(MustBe(json["swiglu_limit"], double{kSwigluLimit}));
  const Layout layout = config->quantization.layout;
  const bool is_gguf = layout == Layout::kGguf;
  if (layout != Layout::kNone && layout != Layout::kMxfp4 && !is_gguf) {
    return json["quantization_config"]["quant_method"].Unsupported(" for " + config->architecture +
                                                                   "; supported: mxfp4");
  }
  LayerDescription layer;
  layer.attention.sinks = true;
  layer.attention.qkv_bias = layer.attention.out_bias = true;
  if (!json["attention_bias"].is_null()) OUTRIDER_TRY(ReadAttentionBias(json, &layer));
  OUTRIDER_TRY(ReadGptOssRope(json, config, &layer.attention.rope));
  MixtureDescription mixture = {.router = {.experts = 128, .top_k = 4},
                                .router_name = "router",
                                .biases = true,
                                .stacked = !is_gguf};
  OUTRIDER_TRY(ReadMixture(json["num_local_experts"], json["num_experts_per_tok"],
                           json["intermediate_size"], &mixture));
  OUTRIDER_TRY(MustBe(json["experts_per_token"], double{1} * mixture.router.top_k));
  layer.mlp.activation = Activation::kClampedSwiglu;
  layer.mlp.mixture = mixture;
  int window = json["sliding_window"].absent() ? 128 : 0;
  OUTRIDER_TRY(json["sliding_window"].Read(&window, 1, kMaxPositions));
  const JsonValue types = json["layer_types"];
  OUTRIDER_ASSIGN(const std::vector<bool> slides,
                  ReadSlidingLayers(types, config->layers.size(),
                                    [&](size_t i) { return window > 0 && i % 2 == 0; }));
  for (size_t i = 0; i < slides.size(); ++i) {
    if (slides[i] && window == 0) return types[i].Unsupported(" without sliding_window");
    config->layers[i] = layer;
    config->layers[i].attention.window = slides[i] ? window : 0;
  }
  return Status();
}

}  // namespace outrider
