// Replaces CUDA's header of this name; see cuda_runtime.h.
#pragma once

#include <cuda_runtime.h>

#include "common/tensor/tensor.h"

struct __half {  // NOLINT(readability-identifier-naming): CUDA's
  unsigned short bits;
};
inline __half __float2half_rn(float value) { return {outrider::FloatToF16(value)}; }
inline float __half2float(__half value) { return outrider::F16ToFloat(value.bits); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
