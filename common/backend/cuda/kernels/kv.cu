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

constexpr int kMaxHeadDim = 256;
constexpr int kRopeWarps = 4;  // per block, each with one head

// RMS norm of a head in shared memory, by the whole warp: the bits of LaunchRmsNorm.
__device__ inline void NormHead(float* x, const float* gain, int head_dim, float eps) {
  constexpr int kVectors = kMaxHeadDim / 4 / kWarpSize;
  const int first = static_cast<int>(threadIdx.x) % kWarpSize * 4;
  float sum = 0.f;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int begin = first + v * 4 * kWarpSize;
    if (begin >= head_dim) break;
#pragma unroll
    for (int i = begin; i < begin + 4; ++i) sum = fmaf(x[i], x[i], sum);
  }
  const float mean = WarpSum(sum) / static_cast<float>(head_dim);
  const float scale = 1.f / sqrtf(mean + eps);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    const int begin = first + v * 4 * kWarpSize;
    if (begin >= head_dim) break;
#pragma unroll
    for (int i = begin; i < begin + 4; ++i) x[i] = x[i] * scale * gain[i];
  }
  __syncwarp();
}

// qkv [rows, (num_heads + 2 * kv_heads) * head_dim]; cos_sin [positions, 2 * half], cosines first.
// Blocks along x are rows; each warp has one head of q, k or v. Pairs (i, i + half) are rotated.
template <class T>
__global__ void __launch_bounds__(kRopeWarps* kWarpSize)
    RopeAndWriteKvKernel(const int32_t* positions, const int32_t* slots, int num_heads,
                         int kv_heads, int head_dim, int half, int page_tokens, HeadNorms norms,
                         const float* cos_sin, float* qkv, T* keys, T* values, float key_scale,
                         float value_scale) {
  AwaitEarlierKernels();
  OUTRIDER_SHARED(float[kRopeWarps][kMaxHeadDim], heads);
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int row = static_cast<int>(blockIdx.x);
  const int head = static_cast<int>(blockIdx.y) * kRopeWarps + warp;
  const int all_heads = num_heads + 2 * kv_heads;
  if (head >= all_heads) return;
  float* const x = qkv + (static_cast<int64_t>(row) * all_heads + head) * head_dim;
  const int key_head = head - num_heads, value_head = key_head - kv_heads;
  if (value_head >= 0) {
    T* const value = values + KvOffset(slots[row], value_head, kv_heads, page_tokens, head_dim);
    for (int i = lane; i < head_dim; i += kWarpSize) value[i] = ToCached<T>(x[i], value_scale);
    return;
  }
  T* const key = key_head < 0
                     ? nullptr
                     : keys + KvOffset(slots[row], key_head, kv_heads, page_tokens, head_dim);
  const float* const angles = cos_sin + static_cast<int64_t>(positions[row]) * 2 * half;
  float* const own = heads[warp];
  for (int i = lane; i < head_dim; i += kWarpSize) own[i] = x[i];
  __syncwarp();
  if (norms.q != nullptr) NormHead(own, key_head < 0 ? norms.q : norms.k, head_dim, norms.eps);
  const auto write = [&](int i, float result) {
    x[i] = result;
    if (key != nullptr) key[i] = ToCached<T>(result, key_scale);
  };
  for (int i = lane; i < half; i += kWarpSize) {
    const float cos = angles[i], sin = angles[half + i];
    const float a = own[i], b = own[half + i];
    write(i, fmaf(-b, sin, __fmul_rn(a, cos)));
    write(half + i, fmaf(a, sin, __fmul_rn(b, cos)));
  }
  for (int i = 2 * half + lane; i < head_dim; i += kWarpSize) write(i, own[i]);
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
                                 const AttentionShape& shape, const HeadNorms& norms,
                                 const float* cos_sin, float* qkv, const KvLayer& kv,
                                 cudaStream_t stream) {
  if (shape.head_dim > kMaxHeadDim) return cudaErrorInvalidValue;
  const int heads = shape.num_heads + 2 * shape.num_kv_heads;
  const dim3 grid(static_cast<unsigned>(rows), Blocks(heads, kRopeWarps));
  const auto launch = [&](auto element) {
    using T = decltype(element);
    return LaunchNext(RopeAndWriteKvKernel<T>, grid, kRopeWarps * kWarpSize, 0, stream, positions,
                      slots, shape.num_heads, shape.num_kv_heads, shape.head_dim,
                      (shape.head_dim - shape.unrotated) / 2, shape.page_tokens, norms, cos_sin,
                      qkv, static_cast<T*>(kv.keys), static_cast<T*>(kv.values), kv.key_scale,
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
