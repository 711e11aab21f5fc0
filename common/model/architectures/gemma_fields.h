// Fields of config.json that Gemma 2 and 3 share.
#pragma once

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/config_fields.h"

namespace outrider {

// The common description of their layers: a norm before and one after each half, GELU.
LayerDescription GemmaLayer();

// A cap or a window: if absent, `fallback`, Transformers' default; null means none, which is 0.
Status ReadSoftCap(const JsonValue& field, float fallback, float* out);
Status ReadGemmaWindow(const JsonValue& field, int* out);

Status ReadQueryScalar(const JsonValue& field, float* out);

// Reads the settings of the whole model: gains that are stored minus 1, a tied head, and embeddings
// scaled by sqrt(hidden_size). The scale is rounded to the type that config.json gives the model,
// in which it was trained and Transformers computes. (Gemma 2 9B: 59.75 in bf16, not 59.87.) It
// does not depend on the type in which weights are kept here.
Status DescribeGemmaModel(const JsonValue& json, ModelConfig* config);

}  // namespace outrider
