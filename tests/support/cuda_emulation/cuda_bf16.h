// Replaces CUDA's header of this name; see cuda_runtime.h.
#pragma once

#include <cuda_runtime.h>

#include "common/tensor/tensor.h"

struct __nv_bfloat16 {  // NOLINT(readability-identifier-naming): CUDA's
  unsigned short bits;
};
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return {outrider::FloatToBf16(value)}; }
inline float __bfloat162float(__nv_bfloat16 value) { return outrider::Bf16ToFloat(value.bits); }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
