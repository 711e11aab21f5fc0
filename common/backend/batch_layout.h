// The batch and the layers of a forward pass as its ops see them: shapes and indexes, without owned
// memory. GPU kernels read the same types.
#pragma once

#include <cstdint>
#include <span>

#include "common/backend/kv_type.h"
#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// One layer's paged keys and values: pages * page_tokens * kv_heads * head_dim elements each. The
// layout within a page is up to the backend.
struct KvLayer {
  void* keys = nullptr;
  void* values = nullptr;
  KvType type = KvType::kF32;
  // Factors of kFp8 elements; 1 for other types.
  float key_scale = 1.f;
  float value_scale = 1.f;
};

// The attention of one layer. The fields up to page_tokens are the same in all layers of a model.
struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;
  int sliding_window = 0;  // positions that a row sees, itself the last; 0: all
  float soft_cap = 0;      // a score s becomes soft_cap * tanh(s / soft_cap); 0: no cap
  float query_scalar = 0;  // a score is q.k / sqrt(query_scalar); 0: head_dim is used
  int unrotated = 0;       // last values of each head of q and k that RoPE does not rotate, even
  // [num_heads] in the backend's memory: for each head one more score in the softmax, next to those
  // of the positions, whose weight goes to no value (Xiao et al. 2023, "StreamingLLM", section
  // 3.3). Null: none.
  const float* sinks = nullptr;

  // query_scalar, or its default.
  OUTRIDER_HD float ScoreScalar() const {
    return query_scalar > 0 ? query_scalar : static_cast<float>(head_dim);
  }
};

// RMS norms of each head of q and of k before the rotation, in the backend's memory.
struct HeadNorms {
  const float* q = nullptr;  // [head_dim] gains; null: q and k have no norm
  const float* k = nullptr;
  float eps = 0;
};

// The activation of an MLP's gate. kSilu: x / (1 + exp(-x)). kGeluTanh: the approximation of GELU
// by tanh (Hendrycks and Gimpel 2016, section 2). kClampedSwiglu, of gpt-oss: gate and up are
// clamped first, the gate only from above; the gate becomes x / (1 + exp(-1.702 x)), and is
// multiplied by up + 1 instead of up.
enum class Activation { kSilu, kGeluTanh, kClampedSwiglu };
constexpr float kSwigluAlpha = 1.702f;
constexpr float kSwigluLimit = 7.f;

// The ragged batch as the kernels read it: host arrays, flattened by model/ragged_batch.h. Each
// sequence's rows are contiguous.
struct BatchLayout {
  int rows = 0;
  int sequences = 0;
  const TokenId* tokens = nullptr;     // [rows]
  const int32_t* positions = nullptr;  // [rows] RoPE position: length + depth
  const int32_t* slots = nullptr;  // [rows] where the row's K/V goes: page * page_tokens + offset
  const int32_t* row_begin = nullptr;   // [sequences + 1]
  const int32_t* context = nullptr;     // [sequences] cached tokens before this batch
  const int32_t* page_begin = nullptr;  // [sequences + 1] into pages
  const int32_t* pages = nullptr;       // page indexes of each sequence in order
  // [rows] parent row within the sequence's rows, or -1; nullptr when every sequence is a chain.
  const int32_t* parents = nullptr;
  // [logit_row_count] rows whose logits are wanted, ascending; for GatherRows.
  const int32_t* logit_rows = nullptr;
  int logit_row_count = 0;
  // Distinct attention windows of the layers; empty: all layers have that of the pass's shape.
  std::span<const int32_t> windows;
};

}  // namespace outrider
