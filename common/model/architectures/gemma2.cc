#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "common/model/architectures/architecture.h"
#include "common/model/architectures/layer_fields.h"
#include "common/tensor/tensor.h"

namespace outrider {
namespace {

using Json = nlohmann::json;

constexpr double kMaxSoftCap = 1e6;
constexpr double kMaxQueryScalar = 1e6;

// Both caps and the window: absent is Transformers' default, null is none, which is 0.
Status ReadSoftCap(const ConfigFields& fields, const char* name, float fallback, float* out) {
  *out = fields.Has(name) ? 0 : fallback;
  return fields.Find(name) == nullptr ? Status() : fields.Positive(name, kMaxSoftCap, out);
}

Status ReadWindow(const ConfigFields& fields, int* out) {
  const int fallback = fields.Has("sliding_window") ? 0 : 4096;
  return fields.Integer("sliding_window", 1, kMaxPositions, fallback, out);
}

// sqrt(hidden_size), rounded to the type that config.json gives the model: in that type the model
// was trained, and Transformers computes. (9B: 59.75 in bf16, not 59.87.) The result does not
// depend on how the weights are kept here.
Status ReadEmbeddingScale(const ConfigFields& fields, ModelConfig* config) {
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_size)));
  config->embedding_scale = root;
  for (const char* name : {"torch_dtype", "dtype"}) {  // until Transformers 4; from 5 on
    const Json* type = fields.Find(name);
    if (type == nullptr || *type == "float32") continue;
    if (*type == "bfloat16") {
      config->embedding_scale = Bf16ToFloat(FloatToBf16(root));
    } else if (*type == "float16") {
      config->embedding_scale = F16ToFloat(FloatToF16(root));
    } else {
      return fields.Unsupported(name, *type);
    }
  }
  return Status();
}

// The window of every layer whose type is "sliding_attention": every other one from the first on,
// where the file does not say.
Status DescribeWindows(const ConfigFields& fields, int window, ModelConfig* config) {
  const Json* types = fields.Find("layer_types");
  if (types != nullptr && (!types->is_array() || types->size() != config->layers.size())) {
    return fields.Bad("layer_types", "is not a list of num_hidden_layers names");
  }
  for (size_t i = 0; i < config->layers.size(); ++i) {
    bool slides = i % 2 == 0;
    if (types != nullptr) {
      const Json& type = (*types)[i];
      slides = type == "sliding_attention";
      if (!slides && type != "full_attention") return fields.Unsupported("layer_types", type);
    }
    config->layers[i].attention.window = slides ? window : 0;
  }
  return Status();
}

}  // namespace

// Gemma 2 (2024, "Improving Open Language Models at a Practical Size"): a norm before and one after
// each half of a layer, gains that are stored less 1, scaled embeddings, GELU, soft caps of scores
// and logits, a window in every other layer.
Status DescribeGemma2(const ConfigFields& fields, ModelConfig* config) {
  OUTRIDER_TRY(CheckActivation(fields, "gelu_pytorch_tanh"));
  OUTRIDER_TRY(fields.MustBeOff("attention_bias"));
  OUTRIDER_TRY(fields.MustBeOff("use_bidirectional_attention"));
  LayerDescription layer;
  layer.attention.norm_after = "post_attention_layernorm";
  layer.mlp = {.norm = "pre_feedforward_layernorm",
               .norm_after = "post_feedforward_layernorm",
               .activation = Activation::kGeluTanh};
  OUTRIDER_TRY(ReadRope(fields, &layer.attention.rope));
  OUTRIDER_TRY(ReadSoftCap(fields, "attn_logit_softcapping", 50, &layer.attention.soft_cap));
  OUTRIDER_TRY(ReadSoftCap(fields, "final_logit_softcapping", 30, &config->logit_soft_cap));
  layer.attention.query_scalar = 256;
  if (fields.Find("query_pre_attn_scalar") != nullptr) {
    OUTRIDER_TRY(
        fields.Positive("query_pre_attn_scalar", kMaxQueryScalar, &layer.attention.query_scalar));
  }
  int window = 0;
  OUTRIDER_TRY(ReadWindow(fields, &window));
  config->layers.assign(config->layers.size(), layer);
  OUTRIDER_TRY(DescribeWindows(fields, window, config));
  config->norm_gain_offset = 1;
  config->tied_embeddings = true;
  return ReadEmbeddingScale(fields, config);
}

}  // namespace outrider
