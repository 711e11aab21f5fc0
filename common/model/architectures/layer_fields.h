// Fields of config.json that several architectures have.
#pragma once

#include <functional>
#include <vector>

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/config_fields.h"

namespace outrider {

// RoPE as Transformers until version 4 ("rope_theta" and "partial_rotary_factor" beside
// "rope_scaling") and from 5 on (all within "rope_parameters") have it. `rope->theta` is the
// architecture's default before. A scaling that says how far it reaches may raise
// config->max_position_embeddings. docs/models.md has what each "rope_type" does to the context.
Status ReadRope(const JsonValue& json, ModelConfig* config, RopeDescription* rope);
// The same of one object: `within` is that object, a member of `json`, or null.
Status ReadRopeObject(const JsonValue& json, const JsonValue& within, ModelConfig* config,
                      RopeDescription* rope);
Status ReadRopeTheta(const JsonValue& theta, RopeDescription* rope);
// Rotates whole heads, or the part of them that "partial_rotary_factor" of `json` says.
Status ReadRotaryDims(const JsonValue& json, const ModelConfig& config, RopeDescription* rope);

// Refuses another activation than `name`.
Status CheckActivation(const JsonValue& json, const char* name);

// "attention_bias" (q, k, v and o) and "mlp_bias" (all three projections).
Status ReadAttentionBias(const JsonValue& json, LayerDescription* layer);
Status ReadMlpBias(const JsonValue& json, LayerDescription* layer);

// Reads how many experts a mixture has ("num_local_experts" or "num_experts", `experts`) and how
// many of them a row takes ("num_experts_per_tok"). Absent: what `mixture` holds. Checks the
// experts' size, which `intermediate` is the field of.
Status ReadMixture(const JsonValue& experts, const JsonValue& top_k, const JsonValue& intermediate,
                   MixtureDescription* mixture);

// Describes every layer as `layer`. Refuses "layer_types" that say otherwise.
Status DescribeAllLayers(const JsonValue& json, const LayerDescription& layer, ModelConfig* config);

// Which layers "layer_types" calls "sliding_attention", the others being "full_attention"; where it
// is absent, those that `by_default` says.
Result<std::vector<bool>> ReadSlidingLayers(const JsonValue& types, size_t layers,
                                            const std::function<bool(size_t)>& by_default);

// Describes every layer as `layer`, some with a window as Qwen 2 and 3 have it: "sliding_window",
// if "use_sliding_window" is on, from layer "max_window_layers" on, or where "layer_types" says so.
Status DescribeLayersWithQwenWindows(const JsonValue& json, const LayerDescription& layer,
                                     ModelConfig* config);

}  // namespace outrider
