// The paged KV cache on the device: where a token's key and value are, and the kernels that write
// them. A page of one layer is [kv_heads, page_tokens, head_dim], for keys and values alike: a
// head's tokens of one page are contiguous.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/batch_layout.h"
#include "common/math/host_device.h"

namespace outrider {

// The first element of slot `slot`, head `head`.
OUTRIDER_HD inline int64_t KvOffset(int32_t slot, int head, int kv_heads, int page_tokens,
                                    int head_dim) {
  const int64_t page = slot / page_tokens;
  return ((page * kv_heads + head) * page_tokens + slot % page_tokens) * head_dim;
}

// As Backend::RopeAndWriteKv; the arrays are device memory.
// REQUIRES: head_dim is at most 256.
cudaError_t LaunchRopeAndWriteKv(const int32_t* positions, const int32_t* slots, int rows,
                                 const AttentionShape& shape, const HeadNorms& norms,
                                 const float* cos_sin, float* qkv, const KvLayer& kv,
                                 cudaStream_t stream);

// As Backend::CopyKvSlots: layers [layer_count] and copies [copy_count] are device memory.
cudaError_t LaunchCopyKvSlots(const KvLayer* layers, int layer_count, KvType type,
                              const SlotCopy* copies, int copy_count, const AttentionShape& shape,
                              cudaStream_t stream);

}  // namespace outrider
