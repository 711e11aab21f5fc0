// RmsNorm, Glu, Scale and SoftCap.
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

// Four independent chains of multiply-adds hide their latency.
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
             bool accumulate, float* out) {
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
      VF value = hn::Mul(normed, hn::LoadU(df, gain + i));
      if (accumulate) value = hn::Add(hn::LoadU(df, out + i), value);
      hn::StoreU(value, df, out + i);
    }
    for (; i < width; ++i) {
      const float value = x[i] * scale * gain[i];
      out[i] = accumulate ? out[i] + value : value;
    }
  }
}

// silu(x) = x * sigmoid(x). Since 1 + tanh(z) = 2 sigmoid(2z), GELU's approximation x / 2 * (1 +
// tanh(z)) is x * sigmoid(2z), with z = sqrt(2 / pi) * (x + 0.044715 x^3).
template <Activation kActivation, class D>
HWY_INLINE hn::Vec<D> SigmoidArgument(D d, hn::Vec<D> x) {
  if constexpr (kActivation == Activation::kGeluTanh) {
    const auto square = hn::Mul(x, x);
    const auto inner = hn::MulAdd(hn::Mul(hn::Set(d, 0.044715f), square), x, x);
    return hn::Mul(hn::Set(d, 1.5957691216f), inner);
  } else if constexpr (kActivation == Activation::kClampedSwiglu) {
    return hn::Mul(hn::Set(d, kSwigluAlpha), x);
  } else {
    static_assert(kActivation == Activation::kSilu);
    return x;
  }
}

template <Activation kActivation, class D>
HWY_INLINE void GluVector(D d, const float* gate, const float* up, float* out) {
  auto g = hn::LoadU(d, gate);
  auto u = hn::LoadU(d, up);
  if constexpr (kActivation == Activation::kClampedSwiglu) {
    const auto limit = hn::Set(d, kSwigluLimit);
    g = hn::IfThenElse(hn::Gt(g, limit), limit, g);  // NaN stays NaN
    u = hn::IfThenElse(hn::Gt(u, limit), limit, u);
    u = hn::IfThenElse(hn::Lt(u, hn::Neg(limit)), hn::Neg(limit), u);
    u = hn::Add(u, hn::Set(d, 1.f));
  }
  const auto x = SigmoidArgument<kActivation>(d, g);
  // exp(88) is the last power of e below infinity; at -88 the sigmoid is about 1e-38.
  const auto clamped = hn::Min(hn::Max(x, hn::Set(d, -88.f)), hn::Set(d, 88.f));
  const auto one = hn::Set(d, 1.f);
  const auto activated = hn::Div(g, hn::Add(one, hn::Exp(d, hn::Neg(clamped))));
  hn::StoreU(hn::Mul(activated, u), d, out);
}

template <Activation kActivation>
void GluRows(const float* gate_up, int rows, int n, float* out) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  const auto width = static_cast<size_t>(n);
  for (int r = 0; r < rows; ++r, gate_up += 2 * width, out += width) {
    size_t i = 0;
    for (; i + lanes <= width; i += lanes) {
      GluVector<kActivation>(df, gate_up + i, gate_up + width + i, out + i);
    }
    // The remaining lanes go through the same operations, so that bits do not depend on n.
    for (; i < width; ++i) {
      GluVector<kActivation>(hn::CappedTag<float, 1>(), gate_up + i, gate_up + width + i, out + i);
    }
  }
}

void Glu(Activation activation, const float* gate_up, int rows, int n, float* out) {
  switch (activation) {
    case Activation::kSilu: return GluRows<Activation::kSilu>(gate_up, rows, n, out);
    case Activation::kGeluTanh: return GluRows<Activation::kGeluTanh>(gate_up, rows, n, out);
    case Activation::kClampedSwiglu:
      return GluRows<Activation::kClampedSwiglu>(gate_up, rows, n, out);
  }
}

void Scale(float* x, size_t count, float factor) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::Mul(hn::LoadU(df, x + i), hn::Set(df, factor)), df, x + i);
  }
  for (; i < count; ++i) x[i] *= factor;
}

template <class D>
HWY_INLINE void SoftCapVector(D d, float cap, float* x) {
  const auto part = hn::Div(hn::LoadU(d, x), hn::Set(d, cap));
  hn::StoreU(hn::Mul(hn::Set(d, cap), hn::Tanh(d, part)), d, x);
}

void SoftCap(float* x, size_t count, float cap) {
  const DF df;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) SoftCapVector(df, cap, x + i);
  for (; i < count; ++i) SoftCapVector(hn::CappedTag<float, 1>(), cap, x + i);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace outrider {
namespace {

HWY_EXPORT(RmsNorm);
HWY_EXPORT(Glu);
HWY_EXPORT(Scale);
HWY_EXPORT(SoftCap);

}  // namespace

void ChooseRowKernels(CpuKernels& kernels) {
  kernels.rms_norm = &HWY_DYNAMIC_DISPATCH(RmsNorm);
  kernels.glu = &HWY_DYNAMIC_DISPATCH(Glu);
  kernels.scale = &HWY_DYNAMIC_DISPATCH(Scale);
  kernels.soft_cap = &HWY_DYNAMIC_DISPATCH(SoftCap);
}

}  // namespace outrider
#endif  // HWY_ONCE
