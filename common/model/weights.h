// The weights of a model in the form that its backend multiplies. This file knows the names of
// tensors, except those of norms, which the description of a layer has. Shapes are those of a whole
// model; a rank of several (shard.h) has parts of these.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/backend/backend.h"
#include "common/base/status.h"
#include "common/model/config.h"
#include "common/model/kv_scales.h"
#include "common/model/safetensors.h"
#include "common/model/shard.h"

namespace outrider {

// The floats of a buffer, which may be null.
inline const float* FloatsOf(const std::unique_ptr<Buffer>& buffer) {
  return buffer == nullptr ? nullptr : buffer->floats();
}

struct MixtureWeights {
  std::unique_ptr<PackedMatrix> router;     // [experts, hidden], f32
  std::unique_ptr<Buffer> router_bias;      // [experts] or null
  std::unique_ptr<ExpertMatrices> gate_up;  // per expert: [2 * intermediate, hidden]
  std::unique_ptr<Buffer> gate_up_bias;     // [experts, 2 * intermediate] or null
  std::unique_ptr<ExpertMatrices> down;     // per expert: [hidden, intermediate]
  std::unique_ptr<Buffer> down_bias;        // [experts, hidden] or null
};

struct LayerWeights {
  KvScales kv_scales;                            // for an FP8 cache
  std::unique_ptr<Buffer> attention_norm;        // [hidden] or null
  std::unique_ptr<Buffer> attention_norm_after;  // [hidden] or null
  std::unique_ptr<PackedMatrix> qkv;             // [(heads + 2 kv_heads) * head_dim, hidden]
  std::unique_ptr<Buffer> qkv_bias;              // [(heads + 2 kv_heads) * head_dim] or null
  std::unique_ptr<Buffer> q_norm, k_norm;        // [head_dim], [all heads * head_dim] or null
  std::unique_ptr<Buffer> sinks;                 // [heads] or null
  std::unique_ptr<PackedMatrix> attention_out;   // [hidden, heads * head_dim]
  std::unique_ptr<Buffer> attention_out_bias;    // [hidden] or null
  std::unique_ptr<Buffer> mlp_norm;              // [hidden] or null
  std::unique_ptr<Buffer> mlp_norm_after;        // [hidden] or null
  MixtureWeights mixture;                        // empty, or replaces the fields below
  std::unique_ptr<PackedMatrix> gate_up;         // [2 * intermediate, hidden]
  std::unique_ptr<Buffer> gate_up_bias;          // [2 * intermediate] or null
  std::unique_ptr<PackedMatrix> down;            // [hidden, intermediate]
  std::unique_ptr<Buffer> down_bias;             // [hidden] or null
};

struct Weights {
  std::unique_ptr<PackedMatrix> embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::unique_ptr<Buffer> final_norm;  // [hidden]
  std::unique_ptr<PackedMatrix> head;  // [logits, hidden], or null: the embedding is the head

  const PackedMatrix& output_head() const { return head != nullptr ? *head : *embedding; }
};

// Called while weights are loaded: `done` of the files' `all` bytes have been processed.
using LoadProgress = std::function<void(int64_t done, int64_t all)>;

// Packs the tensors that `config` requires, or what `shard` holds of them, and ignores the others.
// Logs whether weights are rounded. kInvalidArgument when a tensor is missing, has another shape or
// a number that `type` cannot represent, kDataLoss for one that is NaN or infinite, kUnimplemented
// for a quantized matrix that cannot be divided so. The checkpoint is not needed afterwards.
// REQUIRES: CheckRanks(config, shard.ranks).
Result<Weights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                            WeightType type, Backend& backend, const LoadProgress& progress = {},
                            const Shard& shard = {});

}  // namespace outrider
