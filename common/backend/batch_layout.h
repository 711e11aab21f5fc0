// What the ops of a forward pass are told about its batch and its layers: shapes and places, no
// owned memory. A GPU's kernels read the same types.
#pragma once

#include <cstdint>
#include <span>

#include "common/backend/kv_type.h"
#include "common/base/types.h"
#include "common/math/host_device.h"

namespace outrider {

// One layer's paged keys and values: pages * page_tokens * kv_heads * head_dim elements each. How a
// page is laid out inside is the backend's own affair.
struct KvLayer {
  void* keys = nullptr;
  void* values = nullptr;
  KvType type = KvType::kF32;
  // By which an element of kFp8 is multiplied; 1 for other types.
  float key_scale = 1.f;
  float value_scale = 1.f;
};

// The attention of one layer. The layers of a model have all in common but what follows
// page_tokens.
struct AttentionShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int page_tokens = 0;
  int sliding_window = 0;  // positions that a row sees, itself the last; 0: all
  float soft_cap = 0;      // a score s becomes soft_cap * tanh(s / soft_cap); 0: it stays
  float query_scalar = 0;  // a score is q.k / sqrt(query_scalar); 0: of head_dim
  int unrotated = 0;       // last values of a head of q and k that RoPE leaves as they are, even
  // [num_heads] of the backend's memory: a score that the softmax of each head has beside those of
  // positions, whose weight goes to no value (Xiao et al. 2023, "StreamingLLM", section 3.3). Null:
  // none.
  const float* sinks = nullptr;

  // query_scalar, or its default.
  OUTRIDER_HD float ScoreScalar() const {
    return query_scalar > 0 ? query_scalar : static_cast<float>(head_dim);
  }
};

// What the gate of an MLP goes through. kSilu: x / (1 + exp(-x)). kGeluTanh: the approximation of
// GELU by tanh (Hendrycks and Gimpel 2016, section 2). kClampedSwiglu, of gpt-oss: gate and up are
// clamped first, the gate from above alone; the gate becomes x / (1 + exp(-1.702 x)), up + 1
// instead of up is multiplied with it.
enum class Activation { kSilu, kGeluTanh, kClampedSwiglu };
constexpr float kSwigluAlpha = 1.702f;
constexpr float kSwigluLimit = 7.f;

// The ragged batch as the kernels read it; host arrays, flattened by model/ragged_batch.h.
// The rows of the sequences follow one another.
struct BatchLayout {
  int rows = 0;
  int sequences = 0;
  const TokenId* tokens = nullptr;     // [rows]
  const int32_t* positions = nullptr;  // [rows] RoPE position: length + depth
  const int32_t* slots = nullptr;  // [rows] where the row's K/V goes: page * page_tokens + offset
  const int32_t* row_sequence = nullptr;  // [rows]
  const int32_t* row_begin = nullptr;     // [sequences + 1]
  const int32_t* context = nullptr;       // [sequences] tokens held before this batch
  const int32_t* page_begin = nullptr;    // [sequences + 1] into pages
  const int32_t* pages = nullptr;         // page indexes of each sequence in order
  // [rows] parent row within the sequence's share or -1; nullptr when every sequence is a chain.
  const int32_t* parents = nullptr;
  // [logit_row_count] rows whose logits are wanted, ascending; for GatherRows.
  const int32_t* logit_rows = nullptr;
  int logit_row_count = 0;
  // Windows of the layers' attention, each once; empty: all have that of the pass's shape.
  std::span<const int32_t> windows;
};

}  // namespace outrider
