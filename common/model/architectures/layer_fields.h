// Fields of config.json that several architectures have.
#pragma once

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/config_fields.h"

namespace outrider {

// As Transformers until version 4 ("rope_theta" beside "rope_scaling") and from 5 on (both within
// "rope_parameters") have them.
Status ReadRope(const JsonValue& json, RopeDescription* rope);

// Refuses another activation than `name`.
Status CheckActivation(const JsonValue& json, const char* name);

// Describes every layer as `layer`. Refuses "layer_types" that say otherwise.
Status DescribeAllLayers(const JsonValue& json, const LayerDescription& layer, ModelConfig* config);

}  // namespace outrider
