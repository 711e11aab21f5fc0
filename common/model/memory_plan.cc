#include "common/model/memory_plan.h"

#include <algorithm>
#include <string>

#include "common/model/feed_forward.h"
#include "common/model/rope_table.h"

namespace outrider {
namespace {

std::string Mebibytes(int64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

}  // namespace

Result<int64_t> PlanKvBytes(const MemoryRequest& request) {
  if (!(request.fraction > 0 && request.fraction <= 1)) {
    return InvalidArgument("the fraction of the device's memory is " +
                           std::to_string(request.fraction) + ", not above 0 and at most 1");
  }
  const auto allowed = static_cast<int64_t>(request.fraction * static_cast<double>(request.total));
  const int64_t used = request.total - request.free;
  const int64_t left = allowed - used - request.workspace;
  const int64_t pages = std::max(left / (request.page + request.tables_of_page),
                                 (left - request.tables) / request.page);
  if (pages < 1) {
    return ResourceExhausted("no memory is left for the KV cache: of " + Mebibytes(request.total) +
                             " the fraction " + std::to_string(request.fraction) +
                             " may be used; the weights and whatever else is on the "
                             "device take " +
                             Mebibytes(used) +
                             ", the activations of the largest batch, graphs and libraries " +
                             Mebibytes(request.workspace) + ", and one page of KV would take " +
                             std::to_string(request.page) + " bytes");
  }
  return pages * request.page;
}

int64_t PageBytes(const ModelConfig& config, int page_tokens, KvType kv) {
  return int64_t{2} * config.num_layers() * page_tokens * config.num_kv_heads * config.head_dim *
         static_cast<int64_t>(KvTypeBytes(kv));
}

Result<int> PlanKvPages(const ModelConfig& config, const ModelOptions& options,
                        const DeviceMemory& memory, const Shard& shard, bool graphs) {
  const int64_t page_bytes = PageBytes(config, options.page_tokens, options.kv);
  int64_t kv_bytes = options.kv_bytes;
  if (options.kv_pages == 0 && memory.total > 0 && options.memory_fraction > 0) {
    const int64_t tables_of_page = RopeBytes(config, options.page_tokens);
    // One page more is for rows that pad a pass.
    const int64_t workspace = WorkspaceBytes(config, options, shard) +
                              (graphs ? GraphBytes(config, options) : 0) + page_bytes +
                              tables_of_page;
    OUTRIDER_ASSIGN(kv_bytes,
                    PlanKvBytes({.free = memory.free,
                                 .total = memory.total,
                                 .fraction = options.memory_fraction,
                                 .workspace = workspace,
                                 .page = page_bytes,
                                 .tables_of_page = tables_of_page,
                                 .tables = RopeBytes(config, config.max_position_embeddings)}));
  }
  const int64_t pages = options.kv_pages > 0 ? options.kv_pages : kv_bytes / page_bytes;
  if (pages < 1) {
    return InvalidArgument("kv_bytes is " + std::to_string(kv_bytes) +
                           ", one page of this model takes " + std::to_string(page_bytes));
  }
  // Slots are int32 in all kernels.
  const int64_t max_pages = INT32_MAX / options.page_tokens;
  if (options.kv_pages > max_pages) {
    return InvalidArgument("kv_pages is " + std::to_string(options.kv_pages) + ", more than " +
                           std::to_string(max_pages));
  }
  return static_cast<int>(std::min(pages, max_pages));
}

Status CheckKvFits(const ModelConfig& config, const ModelOptions& options, int pages,
                   int64_t available) {
  const int64_t bytes = pages * PageBytes(config, options.page_tokens, options.kv);
  if (bytes <= available) return {};
  return ResourceExhausted("a KV cache of " + Mebibytes(bytes) + " does not fit into the " +
                           Mebibytes(available) +
                           " of memory that are available; lower --kv-tokens");
}

size_t ExchangedFloats(const ModelConfig& config, const ModelOptions& options, int ranks) {
  const Shard first = {.rank = 0, .ranks = ranks};
  const int64_t widest = std::max<int64_t>(config.hidden_size, first.LogitsOf(config).count);
  return static_cast<size_t>(widest) * static_cast<size_t>(options.max_batch_tokens);
}

int64_t RopeBytes(const ModelConfig& config, int64_t positions) {
  int64_t floats = 0;
  for (const RopeDescription& kind : DistinctRopes(config.layers)) floats += positions * kind.dims;
  return floats * static_cast<int64_t>(sizeof(float));
}

int64_t WorkspaceBytes(const ModelConfig& config, const ModelOptions& options, const Shard& shard) {
  const int64_t q = int64_t{config.num_heads} * config.head_dim;
  const int64_t kv = int64_t{config.num_kv_heads} * config.head_dim;
  // The buffers of LayerStack and FeedForward, and the rounded copies of a product's widest input
  // and of another: 16 bits per element, in memory that grows by powers of two. One more is rounded
  // to FP8.
  // A rank of several has its own logits, and the leading one those of all.
  const int64_t logits = (shard.leads() ? config.vocab_size : 0) +
                         (shard.ranks > 1 ? shard.LogitsOf(config).count : 0);
  const int64_t row = 3 * int64_t{config.hidden_size} + (q + 2 * kv) + 2 * q + logits;
  const FeedForward::Sizes feed_forward = FeedForward::SizesOf(config, options.max_batch_tokens);
  const auto rounded =
      std::max<int64_t>(static_cast<int64_t>(feed_forward.gated),
                        int64_t{config.hidden_size} * options.max_batch_tokens * 4);
  const int64_t copies = options.fp8_activations ? 3 : 2;
  // What the backend allocates later: partial sums of attention, staging, and the memory for picks
  // and for verification (some tens of KB per sequence). The library's workspace exists already.
  constexpr int64_t kBackend = int64_t{160} << 20;
  // An estimate of the code that the driver loads when a kernel or a library's product first runs,
  // and of the buffers with which the library's products are timed.
  constexpr int64_t kLoadedLater = int64_t{256} << 20;
  // What NCCL takes for its channels, an estimate, and the memory in which logits are gathered.
  const int64_t collectives = shard.ranks > 1 ? int64_t{512} << 20 : 0;
  return row * options.max_batch_tokens * static_cast<int64_t>(sizeof(float)) +
         static_cast<int64_t>(feed_forward.all()) + copies * rounded + kBackend + kLoadedLater +
         collectives;
}

int64_t GraphBytes(const ModelConfig& config, const ModelOptions& options) {
  constexpr int64_t kGraphs = 128;  // as many as are kept (cuda/graph_cache.h)
  // About 10, and a few more in a mixture of experts; one to three more a product with FP8 rows.
  const int64_t launches = options.fp8_activations ? 24 : 16;
  constexpr int64_t kBytesOfLaunch = 2048;  // an estimate
  return kGraphs * config.num_layers() * launches * kBytesOfLaunch;
}

}  // namespace outrider
