#include "common/model/kv_scales.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace outrider {
namespace {

// Names after "model.layers.N.self_attn.".
struct Names {
  const char* key;
  const char* value;
};
constexpr Names kNames[] = {
    {"k_scale", "v_scale"},                          // compressed-tensors, vLLM
    {"k_proj.k_scale", "v_proj.v_scale"},            // ModelOpt
    {"k_proj.output_scale", "v_proj.output_scale"},  // earlier compressed-tensors
    {"kv_scale", "kv_scale"},                        // one for both: AutoFP8
};

Result<float> ReadScale(const Checkpoint& checkpoint, const std::string& name) {
  OUTRIDER_ASSIGN(const TensorView view, checkpoint.Find(name));
  if (view.elements() != 1) {
    return InvalidArgument(name + " is " + view.Describe() +
                           "; the keys or values of a layer have one scale");
  }
  const float scale = LoadElement(view, 0);
  // Dividing by a subnormal scale gives infinity, or NaN where subnormals count as 0.
  if (std::isnormal(scale) && scale > 0) return scale;
  return DataLoss(name + " is " + std::to_string(scale) +
                  "; scales must be positive, normal numbers: the checkpoint is damaged, fetch or "
                  "convert it again, or use --kv-cache-dtype auto, which needs no scales");
}

// nullopt: the checkpoint has no scales for this layer.
Result<std::optional<KvScales>> ReadLayer(const Checkpoint& checkpoint,
                                          const std::string& attention) {
  for (const Names& names : kNames) {
    const std::string key = attention + names.key, value = attention + names.value;
    const bool has_key = checkpoint.Has(key), has_value = checkpoint.Has(value);
    if (!has_key && !has_value) continue;
    if (!has_key || !has_value) {
      return InvalidArgument("no tensor " + (has_key ? value : key) + " beside " +
                             (has_key ? key : value));
    }
    KvScales scales;
    OUTRIDER_ASSIGN(scales.key, ReadScale(checkpoint, key));
    OUTRIDER_ASSIGN(scales.value, ReadScale(checkpoint, value));
    return std::optional(scales);
  }
  return std::optional<KvScales>();
}

}  // namespace

Result<std::vector<KvScales>> LoadKvScales(const ModelConfig& config,
                                           const Checkpoint& checkpoint) {
  std::vector<KvScales> scales;
  for (int i = 0; i < config.num_layers(); ++i) {
    const std::string attention = "model.layers." + std::to_string(i) + ".self_attn.";
    OUTRIDER_ASSIGN(const std::optional<KvScales> layer, ReadLayer(checkpoint, attention));
    if (!layer.has_value() && config.quantization.has_kv_scales) {
      return InvalidArgument("no tensor " + attention + kNames[0].key +
                             ", although config.json has a kv_cache_scheme");
    }
    scales.push_back(layer.value_or(KvScales()));
  }
  return scales;
}

}  // namespace outrider
