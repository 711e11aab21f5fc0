// Fields of config.json that Gemma 2 and 3 have in common.
#pragma once

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/config_fields.h"

namespace outrider {

// What the layers of both have: a norm before and one after each half, GELU.
LayerDescription GemmaLayer();

// A cap or a window: absent is `fallback`, Transformers' default; null is none, which is 0.
Status ReadSoftCap(const JsonValue& field, float fallback, float* out);
Status ReadGemmaWindow(const JsonValue& field, int* out);

Status ReadQueryScalar(const JsonValue& field, float* out);

// What holds for the whole model: gains that are stored less 1, a tied head, and embeddings scaled
// by sqrt(hidden_size), rounded to the type that config.json gives the model: in that type the
// model was trained, and Transformers computes. (Gemma 2 9B: 59.75 in bf16, not 59.87.) The result
// does not depend on how the weights are kept here.
Status DescribeGemmaModel(const JsonValue& json, ModelConfig* config);

}  // namespace outrider
