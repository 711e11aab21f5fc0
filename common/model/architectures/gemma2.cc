#include <cmath>
#include <string>

#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"
#include "common/tensor/tensor.h"

namespace outrider {
namespace {

constexpr double kMaxSoftCap = 1e6;
constexpr double kMaxQueryScalar = 1e6;

// Both caps and the window: absent is Transformers' default, null is none, which is 0.
Status ReadSoftCap(const JsonValue& field, float fallback, float* out) {
  *out = field.absent() ? fallback : 0;
  return field.is_null() ? Status() : ReadPositive(field, kMaxSoftCap, out);
}

Status ReadWindow(const JsonValue& field, int* out) {
  *out = field.absent() ? 4096 : 0;
  return field.Read(out, 1, kMaxPositions);
}

// sqrt(hidden_size), rounded to the type that config.json gives the model: in that type the model
// was trained, and Transformers computes. (9B: 59.75 in bf16, not 59.87.) The result does not
// depend on how the weights are kept here.
Status ReadEmbeddingScale(const JsonValue& json, ModelConfig* config) {
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_size)));
  config->embedding_scale = root;
  for (const char* name : {"torch_dtype", "dtype"}) {  // until Transformers 4; from 5 on
    const JsonValue type = json[name];
    if (type.is_null() || type.Is("float32")) continue;
    if (type.Is("bfloat16")) {
      config->embedding_scale = Bf16ToFloat(FloatToBf16(root));
    } else if (type.Is("float16")) {
      config->embedding_scale = F16ToFloat(FloatToF16(root));
    } else {
      return type.Unsupported();
    }
  }
  return Status();
}

// The window of every layer whose type is "sliding_attention": every other one from the first on,
// where the file does not say.
Status DescribeWindows(const JsonValue& types, int window, ModelConfig* config) {
  if (!types.is_null() && (!types.is_array() || types.size() != config->layers.size())) {
    return types.Wrong("a list of num_hidden_layers names");
  }
  for (size_t i = 0; i < config->layers.size(); ++i) {
    bool slides = i % 2 == 0;
    if (!types.is_null()) {
      slides = types[i].Is("sliding_attention");
      if (!slides && !types[i].Is("full_attention")) return types[i].Unsupported();
    }
    config->layers[i].attention.window = slides ? window : 0;
  }
  return Status();
}

}  // namespace

// Gemma 2 (2024, "Improving Open Language Models at a Practical Size"): a norm before and one after
// each half of a layer, gains that are stored less 1, scaled embeddings, GELU, soft caps of scores
// and logits, a window in every other layer.
Status DescribeGemma2(const JsonValue& json, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(json, "gelu_pytorch_tanh"));
  OUTRIDER_TRY(MustBeOff(json["attention_bias"]));
  OUTRIDER_TRY(MustBeOff(json["use_bidirectional_attention"]));
  LayerDescription layer;
  layer.attention.norm_after = "post_attention_layernorm";
  layer.mlp = {.norm = "pre_feedforward_layernorm",
               .norm_after = "post_feedforward_layernorm",
               .activation = Activation::kGeluTanh};
  OUTRIDER_TRY(ReadRope(json, config, &layer.attention.rope));
  OUTRIDER_TRY(ReadSoftCap(json["attn_logit_softcapping"], 50, &layer.attention.soft_cap));
  OUTRIDER_TRY(ReadSoftCap(json["final_logit_softcapping"], 30, &config->logit_soft_cap));
  layer.attention.query_scalar = 256;
  if (const JsonValue scalar = json["query_pre_attn_scalar"]; !scalar.is_null()) {
    OUTRIDER_TRY(ReadPositive(scalar, kMaxQueryScalar, &layer.attention.query_scalar));
  }
  int window = 0;
  OUTRIDER_TRY(ReadWindow(json["sliding_window"], &window));
  config->layers.assign(config->layers.size(), layer);
  OUTRIDER_TRY(DescribeWindows(json["layer_types"], window, config));
  config->norm_gain_offset = 1;
  config->tied_embeddings = true;
  return ReadEmbeddingScale(json, config);
}

}  // namespace outrider
