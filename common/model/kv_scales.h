// The scales of an FP8 KV cache that a checkpoint holds.
#pragma once

#include <vector>

#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/safetensors.h"

namespace outrider {

// Of one layer: an element of the cache times its scale is what it stands for.
struct KvScales {
  float key = 1.f;
  float value = 1.f;
};

// Of each layer: one scale for keys and one for values, by any of the published names, or 1 where
// the checkpoint has none. kInvalidArgument for a scale of another shape, a key's without a
// value's, or none where config.json promises one; kDataLoss for one that is not positive and
// finite.
Result<std::vector<KvScales>> LoadKvScales(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace outrider
