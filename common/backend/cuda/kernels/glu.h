// A gated activation. Included by .cu only.
#pragma once

#include <cuda_runtime.h>

#include "common/backend/batch_layout.h"

namespace outrider {

// The gate's weight is the sigmoid of this; cpu/row_kernels.cc derives GELU's.
template <Activation kActivation>
__device__ inline float SigmoidArgument(float x) {
  if constexpr (kActivation == Activation::kGeluTanh) {
    return 1.5957691216f * fmaf(0.044715f * (x * x), x, x);
  } else if constexpr (kActivation == Activation::kClampedSwiglu) {
    return kSwigluAlpha * x;
  } else {
    static_assert(kActivation == Activation::kSilu);
    return x;
  }
}

// activation(gate) * up.
template <Activation kActivation>
__device__ inline float Gated(float gate, float up) {
  if constexpr (kActivation == Activation::kClampedSwiglu) {
    if (gate > kSwigluLimit) gate = kSwigluLimit;  // NaN stays NaN
    if (up > kSwigluLimit) up = kSwigluLimit;
    if (up < -kSwigluLimit) up = -kSwigluLimit;
    up += 1.f;
  }
  // exp overflows to infinity for a gate far below zero, and the quotient is then zero.
  const float weight = 1.f + expf(-SigmoidArgument<kActivation>(gate));
  return gate / weight * up;
}

__device__ inline float Gated(Activation activation, float gate, float up) {
  switch (activation) {
    case Activation::kSilu: return Gated<Activation::kSilu>(gate, up);
    case Activation::kGeluTanh: return Gated<Activation::kGeluTanh>(gate, up);
    case Activation::kClampedSwiglu: return Gated<Activation::kClampedSwiglu>(gate, up);
  }
  return 0.f;
}

}  // namespace outrider
