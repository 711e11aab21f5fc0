// RmsNorm and SwiGlu.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "common/backend/cpu/row_kernels.cc"
// Compiles this file once per target; must come before the other Highway headers.
// clang-format off
#include "hwy/foreach_target.h"
// clang-format on

#include <cmath>

#include "common/backend/cpu/kernels.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::CappedTag<float, 16>;
using VF = hn::Vec<DF>;

// Four chains of multiply-adds, so that they do not wait for each other.
HWY_INLINE float SumOfSquares(const float* x, size_t n) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  VF sum[4] = {hn::Zero(df), hn::Zero(df), hn::Zero(df), hn::Zero(df)};
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    HWY_UNROLL(4)
    for (size_t c = 0; c < 4; ++c) {
      const VF v = hn::LoadU(df, x + i + c * lanes);
      sum[c] = hn::MulAdd(v, v, sum[c]);
    }
  }
  for (; i + lanes <= n; i += lanes) {
    const VF v = hn::LoadU(df, x + i);
    sum[0] = hn::MulAdd(v, v, sum[0]);
  }
  float rest = 0.f;
  for (; i < n; ++i) rest += x[i] * x[i];
  const VF all = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  return hn::GetLane(hn::SumOfLanes(df, all)) + rest;
}

void RmsNorm(const float* x, const float* gain, int rows, int n, int stride, float eps,
             float* out) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto width = static_cast<size_t>(n);
  for (int r = 0; r < rows; ++r, x += stride, out += stride) {
    const float mean = SumOfSquares(x, width) / static_cast<float>(n);
    const float scale = 1.f / std::sqrt(mean + eps);
    const VF scales = hn::Set(df, scale);
    size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      const VF normed = hn::Mul(hn::LoadU(df, x + i), scales);
      hn::StoreU(hn::Mul(normed, hn::LoadU(df, gain + i)), df, out + i);
    }
    for (; i < width; ++i) out[i] = x[i] * scale * gain[i];
  }
}

template <class D>
HWY_INLINE void SwiGluVector(D d, const float* gate, const float* up, float* out) {
  const auto g = hn::LoadU(d, gate);
  // exp(88) is the last power of e below infinity; at -88 silu is down to 1e-36.
  const auto clamped = hn::Min(hn::Max(g, hn::Set(d, -88.f)), hn::Set(d, 88.f));
  const auto one = hn::Set(d, 1.f);
  const auto silu = hn::Div(g, hn::Add(one, hn::Exp(d, hn::Neg(clamped))));
  hn::StoreU(hn::Mul(silu, hn::LoadU(d, up)), d, out);
}

void SwiGlu(const float* gate_up, int rows, int n, float* out) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto width = static_cast<size_t>(n);
  for (int r = 0; r < rows; ++r, gate_up += 2 * width, out += width) {
    size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      SwiGluVector(df, gate_up + i, gate_up + width + i, out + i);
    }
    // One lane at a time goes through the same operations, so bits do not depend on n.
    for (; i < width; ++i) {
      SwiGluVector(hn::CappedTag<float, 1>(), gate_up + i, gate_up + width + i, out + i);
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(RmsNorm);
HWY_EXPORT(SwiGlu);

}  // namespace

void ChooseRowKernels(CpuKernels& kernels) {
  kernels.rms_norm = &HWY_DYNAMIC_DISPATCH(RmsNorm);
  kernels.swiglu = &HWY_DYNAMIC_DISPATCH(SwiGlu);
}

}  // namespace outrider
#endif  // HWY_ONCE
