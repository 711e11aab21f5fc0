// Fields of config.json that several architectures share.
#pragma once

#include <functional>
#include <vector>

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/config_fields.h"

namespace outrider {

// Reads RoPE as in Transformers up to version 4 ("rope_theta" and "partial_rotary_factor" next to
// "rope_scaling") and from 5 on (all within "rope_parameters"). `rope->theta` must be set to the
// architecture's default. A scaling that states its range may raise
// config->max_position_embeddings. docs/models.md says what each "rope_type" does to the context.
Status ReadRope(const JsonValue& json, ModelConfig* config, RopeDescription* rope);
// The same for one object: `within` is that object, a member of `json`, or null.
Status ReadRopeObject(const JsonValue& json, const JsonValue& within, ModelConfig* config,
                      RopeDescription* rope);
Status ReadRopeTheta(const JsonValue& theta, RopeDescription* rope);
// Rotates whole heads, or the part of them given by "partial_rotary_factor" of `json`.
Status ReadRotaryDims(const JsonValue& json, const ModelConfig& config, RopeDescription* rope);

// Rejects any activation but `name`.
Status CheckActivation(const JsonValue& json, const char* name);

// "attention_bias" (q, k, v and o) and "mlp_bias" (all three projections).
Status ReadAttentionBias(const JsonValue& json, LayerDescription* layer);
Status ReadMlpBias(const JsonValue& json, LayerDescription* layer);

// Reads how many experts a mixture has ("num_local_experts" or "num_experts", `experts`) and how
// many of them each row uses ("num_experts_per_tok"). If absent, `mixture` keeps its value. Checks
// the experts' size, which is the field `intermediate`.
Status ReadMixture(const JsonValue& experts, const JsonValue& top_k, const JsonValue& intermediate,
                   MixtureDescription* mixture);

// Describes every layer as `layer`. Rejects "layer_types" that differ.
Status DescribeAllLayers(const JsonValue& json, const LayerDescription& layer, ModelConfig* config);

// Which layers "layer_types" calls "sliding_attention" rather than "full_attention"; if it is
// absent, `by_default` decides.
Result<std::vector<bool>> ReadSlidingLayers(const JsonValue& types, size_t layers,
                                            const std::function<bool(size_t)>& by_default);

// Describes every layer as `layer`, some with a window as in Qwen 2 and 3: "sliding_window", if
// "use_sliding_window" is on, from layer "max_window_layers" on, or where "layer_types" says so.
Status DescribeLayersWithQwenWindows(const JsonValue& json, const LayerDescription& layer,
                                     ModelConfig* config);

}  // namespace outrider
