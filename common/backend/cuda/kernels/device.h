// Shared by the kernels: 16-byte loads, 16-bit floats as bits, sums over a block. Included by .cu
// only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

#include "common/backend/cuda/kernels/elements.h"
#include "common/backend/cuda/kernels/rows.h"
#include "common/backend/cuda/launch.h"
#include "common/math/fp8.h"

namespace outrider {

__device__ inline float Widen(float x) { return x; }
__device__ inline float Widen(Bf16 bits) {
  return __uint_as_float(static_cast<unsigned>(bits) << 16);
}
__device__ inline float Widen(F16 x) { return __half2float(__ushort_as_half(x.bits)); }

template <class T>
__device__ T Narrow(float x);
template <>
__device__ inline float Narrow<float>(float x) {
  return x;
}
template <>
__device__ inline Bf16 Narrow<Bf16>(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
// Finite values stay finite: an activation beyond 65,504 would become infinity, and then NaN.
template <>
__device__ inline F16 Narrow<F16>(float x) {
  const uint16_t bits = __half_as_ushort(__float2half_rn(x));
  const bool overflow = (bits & 0x7fff) == 0x7c00 && fabsf(x) <= FLT_MAX;
  return {static_cast<uint16_t>(overflow ? bits - 1 : bits)};
}

template <>
__device__ inline Fp8 Narrow<Fp8>(float x) {
  return {FloatToFp8(x)};
}

// The bits of `value` as kBf16 or kF16; f32 rows are never rounded.
__device__ inline uint16_t Round(float value, Dtype dtype) {
  switch (dtype) {
    case Dtype::kF16: return Narrow<F16>(value).bits;
    case Dtype::kBf16: return Narrow<Bf16>(value);
    case Dtype::kF32: break;
  }
  return 0;
}
// Writes element `index` of rows for a product.
__device__ inline void StoreRounded(const RoundedRows& rows, int64_t index, float value) {
  rows.data[index] = Round(value, rows.dtype);
}

// Loads eight neighbouring values and widens them. `in` is aligned to eight of them, at most 16
// bytes.
__device__ inline void LoadEight(const Bf16* in, float (&out)[8]) {
  const uint4 words = *reinterpret_cast<const uint4*>(in);
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(word[i] << 16);
    out[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
  }
}
__device__ inline void LoadEight(const F16* in, float (&out)[8]) {
  const uint4 words = *reinterpret_cast<const uint4*>(in);
  const unsigned word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = Widen(F16{static_cast<uint16_t>(word[i] & 0xffff)});
    out[2 * i + 1] = Widen(F16{static_cast<uint16_t>(word[i] >> 16)});
  }
}
__device__ inline void LoadEight(const Fp8* in, float (&out)[8]) {
  const uint2 words = *reinterpret_cast<const uint2*>(in);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[i] = Fp8ToFloat(static_cast<uint8_t>(words.x >> 8 * i & 0xff));
    out[4 + i] = Fp8ToFloat(static_cast<uint8_t>(words.y >> 8 * i & 0xff));
  }
}
__device__ inline void LoadEight(const float* in, float (&out)[8]) {
  const float4 low = *reinterpret_cast<const float4*>(in);
  const float4 high = *reinterpret_cast<const float4*>(in + 4);
  out[0] = low.x, out[1] = low.y, out[2] = low.z, out[3] = low.w;
  out[4] = high.x, out[5] = high.y, out[6] = high.z, out[7] = high.w;
}

__device__ inline unsigned BitsOf(Bf16 x) { return x; }
__device__ inline unsigned BitsOf(F16 x) { return x.bits; }

// Rounds eight neighbouring values to 16 bits and stores them. `out` is aligned to 16 bytes.
template <class T>
__device__ inline void StoreEight(T* out, const float (&values)[8]) {
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    word[i] = BitsOf(Narrow<T>(values[2 * i])) | BitsOf(Narrow<T>(values[2 * i + 1])) << 16;
  }
  *reinterpret_cast<uint4*>(out) = make_uint4(word[0], word[1], word[2], word[3]);
}

__device__ inline float WarpSum(float value) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kFullWarp, value, step);
  }
  return value;
}

// Sums kCount values over the warp at once: lane l ends up with sum l / (32 / kCount) in
// `value[0]`. Each sum is added up in the order of WarpSum, but at each step only half of the
// values change lanes instead of all of them. kCount: a power of two up to 32.
template <int kCount>
__device__ inline void WarpSums(float (&value)[kCount]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int step = kWarpSize / 2;
#pragma unroll
  for (int count = kCount; count > 1; count /= 2, step /= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      if (i >= count / 2) break;
      const float keep = upper ? value[i + count / 2] : value[i];
      const float give = upper ? value[i] : value[i + count / 2];
      value[i] = keep + __shfl_xor_sync(kFullWarp, give, step);
    }
  }
  for (; step > 0; step /= 2) value[0] += __shfl_xor_sync(kFullWarp, value[0], step);
}

__device__ inline float WarpMax(float value) {
#pragma unroll
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, step));
  }
  return value;
}

// Every thread gets the same sum, in an order that depends only on the block size. `warp_sums` is
// shared memory for 32 floats, which may be reused after the block's next barrier.
__device__ inline float BlockSum(float value, float* warp_sums) {
  value = WarpSum(value);
  if (threadIdx.x % kWarpSize == 0) warp_sums[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  float sum = 0.f;
  for (unsigned w = 0; w < blockDim.x / kWarpSize; ++w) sum += warp_sums[w];
  return sum;
}

// Threads for a row of n values, by n alone, so that a row's bits do not depend on the call.
inline unsigned ThreadsForRow(int n) {
  return n <= 256 ? 32 : n <= 1024 ? 128 : n <= 4096 ? 256 : 512;
}

inline unsigned Blocks(int64_t count, int per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

}  // namespace outrider
