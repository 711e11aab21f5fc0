// Reads a checkpoint's scales for an FP8 KV cache.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/safetensors.h"

namespace outrider {

// The scales of one layer: a cached element times its scale is the original value.
struct KvScales {
  float key = 1.f;
  float value = 1.f;
};

// Reads the scales of each layer: one for keys and one for values, under any of the published
// names, or 1 if the checkpoint has none. kInvalidArgument for a scale of another shape, for a
// key's without a value's, or for missing scales that config.json promises; kDataLoss for a scale
// that is not positive and finite.
Result<std::vector<KvScales>> LoadKvScales(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace outrider
