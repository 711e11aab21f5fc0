// How a device's memory is shared out: weights first, then the activations of the largest batch,
// and the KV cache gets the rest of what the service may use. Pure.
#pragma once

#include <cstdint>

#include "common/backend/device_ops.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/transformer.h"

namespace outrider {

// All in bytes.
struct MemoryRequest {
  int64_t free = 0;   // of the device, with the weights on it
  int64_t total = 0;  // of the device
  // Of `total`, how much may be in use in the end, by whomever. In (0, 1].
  double fraction = 0.9;
  int64_t workspace = 0;
  int64_t page = 0;  // of all layers
};

// What the KV cache may take: whole pages, one at least. kInvalidArgument for a bad fraction,
// kResourceExhausted, with all figures, when not even a page is left.
Result<int64_t> PlanKvBytes(const MemoryRequest& request);

// One page of all layers, keys and values.
int64_t PageBytes(const ModelConfig& config, int page_tokens, KvType kv);
// Pages of the KV cache, as `options` has it, at most as many as have int32 slots. `memory`: of the
// device with the weights on it; all zeros where it is not known. kInvalidArgument for options that
// leave no page or ask for too many, and errors of PlanKvBytes.
Result<int> PlanKvPages(const ModelConfig& config, const ModelOptions& options,
                        const DeviceMemory& memory);
// Whether a cache of so many pages fits into `available` bytes of the host's memory: it is not
// resident before it is used, so nothing else says so in time. kResourceExhausted with figures.
Status CheckKvFits(const ModelConfig& config, const ModelOptions& options, int pages,
                   int64_t available);
// What a model takes on its device beside weights and KV.
int64_t WorkspaceBytes(const ModelConfig& config, const ModelOptions& options);

}  // namespace outrider
