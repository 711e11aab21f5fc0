// The weights of a model in the form that its backend multiplies with. The names of tensors are
// known here, those of norms to the description of a layer.
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

namespace outrider {

// Of a buffer that may be null.
inline const float* FloatsOf(const std::unique_ptr<Buffer>& buffer) {
  return buffer == nullptr ? nullptr : buffer->floats();
}

struct MixtureWeights {
  std::unique_ptr<PackedMatrix> router;     // [experts, hidden], f32
  std::unique_ptr<Buffer> router_bias;      // [experts] or null
  std::unique_ptr<ExpertMatrices> gate_up;  // of each expert: [2 * intermediate, hidden]
  std::unique_ptr<Buffer> gate_up_bias;     // [experts, 2 * intermediate] or null
  std::unique_ptr<ExpertMatrices> down;     // of each expert: [hidden, intermediate]
  std::unique_ptr<Buffer> down_bias;        // [experts, hidden] or null
};

struct LayerWeights {
  KvScales kv_scales;                            // of an FP8 cache
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
  MixtureWeights mixture;                        // empty, or what there is instead of the rest
  std::unique_ptr<PackedMatrix> gate_up;         // [2 * intermediate, hidden]
  std::unique_ptr<Buffer> gate_up_bias;          // [2 * intermediate] or null
  std::unique_ptr<PackedMatrix> down;            // [hidden, intermediate]
  std::unique_ptr<Buffer> down_bias;             // [hidden] or null
};

struct Weights {
  std::unique_ptr<PackedMatrix> embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::unique_ptr<Buffer> final_norm;  // [hidden]
  std::unique_ptr<PackedMatrix> head;  // [vocab, hidden], or null: the embedding is the head

  const PackedMatrix& output_head() const { return head != nullptr ? *head : *embedding; }
};

// Told while weights are loaded: bytes of the files that are done, of all that the files hold.
using LoadProgress = std::function<void(int64_t done, int64_t all)>;

// Packs what `config` asks for; other tensors of the checkpoint are left alone. Logs whether
// weights are rounded. kInvalidArgument when a tensor is missing, has another shape or a number
// that `type` cannot hold, kDataLoss for one that is NaN or infinite; nothing of the checkpoint is
// needed afterwards.
Result<Weights> LoadWeights(const ModelConfig& config, const Checkpoint& checkpoint,
                            WeightType type, Backend& backend, const LoadProgress& progress = {});

}  // namespace outrider
