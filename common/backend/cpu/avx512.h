// What the kernels written with AVX-512's intrinsics share.
#pragma once

#if defined(__x86_64__)

// g++ 12 warns about the undefined operands inside its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <cstddef>

#include "common/backend/cpu/kernels.h"
#include "hwy/targets.h"

#define OUTRIDER_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16")))
#define OUTRIDER_AVX512_INLINE OUTRIDER_AVX512 __attribute__((always_inline)) inline

namespace outrider {

// Whether kernels may use AVX-512. Highway's mask is checked as well, so that a test of narrower
// machines does not use it.
inline bool HasAvx512() { return (hwy::SupportedTargets() & HWY_AVX3) != 0; }

// Sums of a dot instruction. In variables of type __m512i, whose elements have 64 bits, g++ 12
// copies each sum from register to register, or through memory, at every step of a loop.
using Int32Sums = int __attribute__((vector_size(64)));

// Adds to each sum the products of four bytes of `x` (0 to 255) and of `w` (-128 to 127).
OUTRIDER_AVX512_INLINE Int32Sums AddDot(Int32Sums sum, __m512i x, __m512i w) {
  return (Int32Sums)_mm512_dpbusd_epi32((__m512i)sum, x, w);
}

// Loads 64 bytes once: without it g++ 12 may read memory again for each use, and a core reads 64
// bytes a cycle at most.
OUTRIDER_AVX512_INLINE __m512i LoadOnce(const void* source) {
  __m512i value = _mm512_load_si512(source);
  asm("" : "+v"(value));
  return value;
}

// Writes the 16 outputs of one row, as far as they exist.
OUTRIDER_AVX512 inline void WriteOutputs(const Product& product, int row, int output,
                                         __m512 value) {
  const int out = product.weights->out_features();
  const int count = std::clamp(out - output, 0, 16);
  const auto mask = static_cast<__mmask16>((1u << count) - 1);
  float* y = product.y + static_cast<size_t>(row) * out + output;
  if (product.bias != nullptr) {
    value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, product.bias + output));
  }
  if (product.accumulate) value = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y), value);
  _mm512_mask_storeu_ps(y, mask, value);
}

}  // namespace outrider

#endif
