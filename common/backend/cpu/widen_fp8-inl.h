// FP8 codes as floats that are kFp8Unit times too small, because f16's bias replaces theirs: a
// widening, a shift and the conversion from f16. Compiled for each instruction set (Highway).
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

// REQUIRES: no code is NaN.
template <class D>
HWY_INLINE hn::Vec<D> WidenFiniteFp8(D d, const uint8_t* codes) {
  const hn::Rebind<int8_t, D> d8;
  const hn::Rebind<int16_t, D> d16;
  const hn::Rebind<hwy::float16_t, D> half;
  const auto bytes = hn::LoadU(d8, reinterpret_cast<const int8_t*>(codes));
  // Sign, then exponent and mantissa from f16's second exponent bit on.
  const auto sign_and_rest = hn::Set(d16, static_cast<int16_t>(0xbfff));
  const auto halves = hn::And(hn::ShiftLeft<7>(hn::PromoteTo(d16, bytes)), sign_and_rest);
  return hn::PromoteTo(d, hn::BitCast(half, halves));
}

// NaN stays NaN. It is detected among the floats, since not every target converts an f16 NaN.
template <class D>
HWY_INLINE hn::Vec<D> WidenFp8(D d, const uint8_t* codes) {
  const auto value = WidenFiniteFp8(d, codes);
  const auto nan_value =
      hn::Set(d, 1.875f);  // the value that NaN's exponent and mantissa would have
  return hn::IfThenElse(hn::Eq(hn::Abs(value), nan_value), hn::NaN(d), value);
}

}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#endif  // toggle of the include guard
