// Divides a device's memory: weights first, then the activations of the largest batch; the KV cache
// gets the rest of what the service may use. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/backend/device_ops.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/shard.h"
#include "common/model/transformer.h"

namespace outrider {

// All in bytes.
struct MemoryRequest {
  int64_t free = 0;   // of the device, with the weights loaded
  int64_t total = 0;  // of the device
  // Fraction of `total` that all processes together may use, this one included. In (0, 1].
  double fraction = 0.9;
  int64_t workspace = 0;
  int64_t page = 0;  // over all layers
  // Tables of positions, which reach as far as the cache does, but no further than the model's
  // context: what a page adds to them, and all that they can take.
  int64_t tables_of_page = 0;
  int64_t tables = 0;
};

// The bytes that the KV cache may take: whole pages, at least one. kInvalidArgument for a bad
// fraction, kResourceExhausted, with all figures, when there is no room for a single page.
Result<int64_t> PlanKvBytes(const MemoryRequest& request);

// Bytes of one page over all layers, keys and values.
int64_t PageBytes(const ModelConfig& config, int page_tokens, KvType kv);
// Number of pages of the KV cache according to `options`, limited to int32 slots. `memory` is the
// device's with the weights loaded; all zeros if unknown. `config` is that of the rank, `shard`.
// `graphs`: whether the device runs passes as graphs.
// kInvalidArgument for options that leave no page or request too many, and errors of PlanKvBytes.
Result<int> PlanKvPages(const ModelConfig& config, const ModelOptions& options,
                        const DeviceMemory& memory, const Shard& shard = {}, bool graphs = false);
// Checks that a cache of so many pages fits into `available` bytes of host memory: it only becomes
// resident when it is used, so nothing else would fail in time. kResourceExhausted with figures.
Status CheckKvFits(const ModelConfig& config, const ModelOptions& options, int pages,
                   int64_t available);
// Floats of the largest operation among the ranks of a model.
size_t ExchangedFloats(const ModelConfig& config, const ModelOptions& options, int ranks);

// Bytes of the RoPE tables of so many positions.
int64_t RopeBytes(const ModelConfig& config, int64_t positions);
// Bytes that a model, or one rank of it, needs on its device besides weights, KV, RoPE tables and
// graphs.
int64_t WorkspaceBytes(const ModelConfig& config, const ModelOptions& options,
                       const Shard& shard = {});
// An estimate of the bytes that a device's graphs of a model take.
int64_t GraphBytes(const ModelConfig& config, const ModelOptions& options);

}  // namespace outrider
