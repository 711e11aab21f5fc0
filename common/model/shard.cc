#include "common/model/shard.h"

#include <string>

#include "common/backend/communicator.h"

namespace outrider {
namespace {

Status CheckDivides(int ranks, int size, const char* what) {
  if (size % ranks == 0) return Status();
  return InvalidArgument(std::to_string(ranks) + " devices do not divide the model's " +
                         std::to_string(size) + " " + what);
}

}  // namespace

Range Shard::KvHeadsOf(const ModelConfig& config) const {
  if (config.num_kv_heads >= ranks) return Of(config.num_kv_heads);
  return {int64_t{rank} * config.num_kv_heads / ranks, 1};
}

Range Shard::LogitsOf(const ModelConfig& config) const {
  return ColumnsOf(rank, ranks, config.vocab_size);
}

Status CheckRanks(const ModelConfig& config, int ranks) {
  if (ranks < 1 || ranks > kMaxRanks) {
    return InvalidArgument("a model runs on 1 to " + std::to_string(kMaxRanks) + " devices, not " +
                           std::to_string(ranks));
  }
  OUTRIDER_TRY(CheckDivides(ranks, config.num_heads, "attention heads"));
  const int kv_heads = config.num_kv_heads;
  if (kv_heads % ranks != 0 && ranks % kv_heads != 0) {
    return InvalidArgument(std::to_string(ranks) + " devices and the model's " +
                           std::to_string(kv_heads) +
                           " heads of keys and values: neither number divides the other");
  }
  for (const LayerDescription& layer : config.layers) {
    if (layer.attention.qk_norm == QkNorm::kProjection && ranks > 1) {
      return Unimplemented(config.architecture +
                           " normalises all heads together, which one device has to hold");
    }
    OUTRIDER_TRY(layer.mlp.mixture ? CheckDivides(ranks, layer.mlp.mixture->intermediate_size,
                                                  "values of an expert's intermediate size")
                                   : CheckDivides(ranks, config.intermediate_size,
                                                  "values of the intermediate size"));
  }
  if (Shard{ranks - 1, ranks}.LogitsOf(config).count == 0) {
    return InvalidArgument("a vocabulary of " + std::to_string(config.vocab_size) +
                           " is too small for " + std::to_string(ranks) + " devices");
  }
  return Status();
}

ModelConfig ShardOf(const ModelConfig& config, const Shard& shard) {
  ModelConfig part = config;
  part.num_heads = static_cast<int>(shard.Of(config.num_heads).count);
  part.num_kv_heads = static_cast<int>(shard.KvHeadsOf(config).count);
  part.intermediate_size = config.intermediate_size / shard.ranks;
  for (LayerDescription& layer : part.layers) {
    if (layer.mlp.mixture) layer.mlp.mixture->intermediate_size /= shard.ranks;
  }
  return part;
}

}  // namespace outrider
