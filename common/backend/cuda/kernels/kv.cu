#include <type_traits>

#include "common/backend/cuda/kernels/device.h"
#include "common/backend/cuda/kernels/kv.h"

namespace outrider {
namespace {

constexpr int kThreads = 256;

// The cached form of a value; in FP8, a code that is multiplied by `scale` when read.
template <class T>
__device__ inline T ToCached(float value, float scale) {
  if constexpr (std::is_same_v<T, Fp8>) value /= scale;
  return Narrow<T>(value);
}

// qkv [rows, (num_heads + 2 * kv_heads) * head_dim]; cos_sin [positions, 2 * half], cosines first.
// One block per row; a thread rotates pairs (i, i + half) of its heads, of which the first 2 * half
// values are rotated.
template <class T>
__global__ void RopeAndWriteKvKernel(const int32_t* positions, const int32_t* slots, int num_heads,
                                     int kv_heads, int head_dim, int half, int page_tokens,
                                     const float* cos_sin, float* qkv, T* keys, T* values,
                                     float key_scale, float value_scale) {
  AwaitEarlierKernels();
  const int row = static_cast<int>(blockIdx.x);
  const float* angles = cos_sin + static_cast<int64_t>(positions[row]) * 2 * half;
  float* row_qkv = qkv + static_cast<int64_t>(row) * (num_heads + 2 * kv_heads) * head_dim;
  const int32_t slot = slots[row];
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  for (int index = first; index < (num_heads + kv_heads) * half; index += step) {
    const int head = index / half, i = index % half;
    float* low = row_qkv + head * head_dim + i;
    const float cos = angles[i], sin = angles[half + i];
    const float a = low[0], b = low[half];
    const float rotated_low = fmaf(-b, sin, __fmul_rn(a, cos));
    const float rotated_high = fmaf(a, sin, __fmul_rn(b, cos));
    low[0] = rotated_low;
    low[half] = rotated_high;
    if (head >= num_heads) {
      T* key = keys + KvOffset(slot, head - num_heads, kv_heads, page_tokens, head_dim);
      key[i] = ToCached<T>(rotated_low, key_scale);
      key[half + i] = ToCached<T>(rotated_high, key_scale);
    }
  }
  const float* k = row_qkv + num_heads * head_dim;
  const int unrotated = head_dim - 2 * half;
  for (int index = first; index < kv_heads * unrotated; index += step) {
    const int head = index / unrotated, i = 2 * half + index % unrotated;
    keys[KvOffset(slot, head, kv_heads, page_tokens, head_dim) + i] =
        ToCached<T>(k[head * head_dim + i], key_scale);
  }
  const float* v = k + kv_heads * head_dim;
  for (int index = first; index < kv_heads * head_dim; index += step) {
    const int head = index / head_dim, i = index % head_dim;
    values[KvOffset(slot, head, kv_heads, page_tokens, head_dim) + i] =
        ToCached<T>(v[index], value_scale);
  }
}

// A thread moves one element of one layer's keys and values (T has the element's size) through all
// copies in order: a copy may read what the previous one wrote or what the next one overwrites.
// Consecutive copies of which none reads the target of an earlier one are loaded together, so that
// their latencies overlap.
template <class T>
__global__ void __launch_bounds__(kThreads)
    CopyKvSlotsKernel(const KvLayer* layers, const SlotCopy* copies, int copy_count, int kv_heads,
                      int head_dim, int page_tokens) {
  constexpr int kTogether = 8;
  const int index = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (index >= kv_heads * head_dim) return;
  const int head = index / head_dim, i = index % head_dim;
  T* keys = static_cast<T*>(layers[blockIdx.y].keys);
  T* values = static_cast<T*>(layers[blockIdx.y].values);
  const auto offset = [&](int32_t slot) {
    return KvOffset(slot, head, kv_heads, page_tokens, head_dim) + i;
  };
  for (int first = 0; first < copy_count;) {
    SlotCopy group[kTogether];
    int count = 0;  // copies that may be loaded together
#pragma unroll
    for (int c = 0; c < kTogether; ++c) {
      group[c] = copies[min(first + c, copy_count - 1)];
      bool independent = first + c < copy_count && count == c;
#pragma unroll
      for (int before = 0; before < c; ++before) {
        independent = independent && group[before].to != group[c].from;
      }
      if (independent) count = c + 1;
    }
    T key[kTogether], value[kTogether];
#pragma unroll
    for (int c = 0; c < kTogether; ++c) {
      if (c >= count) break;
      key[c] = keys[offset(group[c].from)];
      value[c] = values[offset(group[c].from)];
    }
#pragma unroll
    for (int c = 0; c < kTogether; ++c) {
      if (c >= count) break;
      keys[offset(group[c].to)] = key[c];
      values[offset(group[c].to)] = value[c];
    }
    first += count;
  }
}

}  // namespace

cudaError_t LaunchRopeAndWriteKv(const int32_t* positions, const int32_t* slots, int rows,
                                 const AttentionShape& shape, const float* cos_sin, float* qkv,
                                 const KvLayer& kv, cudaStream_t stream) {
  const auto launch = [&](auto element) {
    using T = decltype(element);
    return LaunchNext(RopeAndWriteKvKernel<T>, static_cast<unsigned>(rows), kThreads, 0, stream,
                      positions, slots, shape.num_heads, shape.num_kv_heads, shape.head_dim,
                      (shape.head_dim - shape.unrotated) / 2, shape.page_tokens, cos_sin, qkv,
                      static_cast<T*>(kv.keys), static_cast<T*>(kv.values), kv.key_scale,
                      kv.value_scale);
  };
  switch (kv.type) {
    case KvType::kF32: return launch(float{});
    case KvType::kF16: return launch(F16{});
    case KvType::kBf16: return launch(Bf16{});
    case KvType::kFp8: return launch(Fp8{});
  }
  return cudaErrorInvalidValue;
}

cudaError_t LaunchCopyKvSlots(const KvLayer* layers, int layer_count, KvType type,
                              const SlotCopy* copies, int copy_count, const AttentionShape& shape,
                              cudaStream_t stream) {
  const dim3 grid(Blocks(int64_t{shape.num_kv_heads} * shape.head_dim, kThreads),
                  static_cast<unsigned>(layer_count));
  const auto launch = [&](auto* kernel) {
    return Launch(kernel, grid, kThreads, 0, stream, layers, copies, copy_count, shape.num_kv_heads,
                  shape.head_dim, shape.page_tokens);
  };
  switch (type) {
    case KvType::kF32: return launch(CopyKvSlotsKernel<float>);
    case KvType::kF16:
    case KvType::kBf16: return launch(CopyKvSlotsKernel<uint16_t>);
    case KvType::kFp8: return launch(CopyKvSlotsKernel<uint8_t>);
  }
  return cudaErrorInvalidValue;
}

}  // namespace outrider
