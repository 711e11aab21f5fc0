// FP8 codes as floats that are kFp8Unit times too small, since f16's bias stands for theirs: a
// widening, a shift and the conversion of f16. Compiled for each instruction set (Highway).
#if defined(OUTRIDER_WIDEN_FP8_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_WIDEN_FP8_INL_H_
#undef OUTRIDER_WIDEN_FP8_INL_H_
#else
#define OUTRIDER_WIDEN_FP8_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The bits of f16: a code's sign, then its exponent and mantissa from the second exponent bit on.
template <class D16>
HWY_INLINE hn::Vec<D16> Fp8AsHalves(D16 d16, const uint8_t* codes) {
  const hn::Rebind<int8_t, D16> d8;
  const auto bytes = hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes));
  const auto sign_and_rest = hn::Set(d16, static_cast<int16_t>(0xbfff));
  return hn::And(hn::ShiftLeft<7>(hn::PromoteTo(d16, bytes)), sign_and_rest);
}

// REQUIRES: no code is NaN.
template <class D>
HWY_INLINE hn::Vec<D> WidenFiniteFp8(D d, const uint8_t* codes) {
  const hn::Rebind<int16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::BitCast(half, Fp8AsHalves(d16, codes)));
}

// NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> WidenFp8(D d, const uint8_t* codes) {
  const hn::Rebind<int16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto halves = Fp8AsHalves(d16, codes);
  const auto magnitude_of_nan = hn::Set(d16, static_cast<int16_t>(0x3f80));
  const auto is_nan = hn::Eq(hn::And(halves, magnitude_of_nan), magnitude_of_nan);
  const auto with_nan = hn::Or(halves, hn::VecFromMask(d16, is_nan));
  return hn::PromoteTo(d, hn::BitCast(half, with_nan));
}

}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#endif  // toggle of the include guard
