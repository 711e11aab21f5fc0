#include "common/model/architectures/gemma_fields.h"

#include <cmath>

#include "common/tensor/tensor.h"

namespace outrider {
namespace {

constexpr double kMaxSoftCap = 1e6;
constexpr double kMaxQueryScalar = 1e6;

}  // namespace

LayerDescription GemmaLayer() {
  LayerDescription layer;
  layer.attention.norm_after = "post_attention_layernorm";
  layer.mlp = {.norm = "pre_feedforward_layernorm",
               .norm_after = "post_feedforward_layernorm",
               .activation = Activation::kGeluTanh};
  return layer;
}

Status ReadSoftCap(const JsonValue& field, float fallback, float* out) {
  *out = field.absent() ? fallback : 0;
  return field.is_null() ? Status() : ReadPositive(field, kMaxSoftCap, out);
}

Status ReadGemmaWindow(const JsonValue& field, int* out) {
  *out = field.absent() ? 4096 : 0;
  return field.Read(out, 1, kMaxPositions);
}

Status ReadQueryScalar(const JsonValue& field, float* out) {
  *out = 256;
  return field.is_null() ? Status() : ReadPositive(field, kMaxQueryScalar, out);
}

Status DescribeGemmaModel(const JsonValue& json, ModelConfig* config) {
  config->norm_gain_offset = 1;
  config->tied_embeddings = true;
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_size)));
  config->embedding_scale = root;
  for (const char* name : {"torch_dtype", "dtype"}) {  // up to Transformers 4; from 5 on
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

}  // namespace outrider
