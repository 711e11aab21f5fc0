// 4-bit floats as the integers that are twice their values, looked up by shuffling bytes. Compiled
// for each instruction set (Highway).
#if defined(OUTRIDER_WIDEN_FP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef OUTRIDER_WIDEN_FP4_INL_H_
#undef OUTRIDER_WIDEN_FP4_INL_H_
#else
#define OUTRIDER_WIDEN_FP4_INL_H_
#endif

#include <cstdint>

#include "common/math/fp4.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace outrider {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The code in the low half of each byte becomes a signed byte. DU: 32-bit unsigned integers.
template <class DU>
HWY_INLINE hn::Vec<DU> TwiceLowFp4(DU du, hn::Vec<DU> codes) {
#if HWY_TARGET == HWY_SCALAR
  uint32_t bytes = 0;
  for (int i = 0; i < 32; i += 8) {
    bytes |= static_cast<uint32_t>(TwiceFp4(hn::GetLane(codes) >> i & 15) & 0xff) << i;
  }
  return hn::Set(du, bytes);
#else
  alignas(16) static constexpr int8_t kTwice[16] = {
      TwiceFp4(0),  TwiceFp4(1),  TwiceFp4(2),  TwiceFp4(3), TwiceFp4(4),  TwiceFp4(5),
      TwiceFp4(6),  TwiceFp4(7),  TwiceFp4(8),  TwiceFp4(9), TwiceFp4(10), TwiceFp4(11),
      TwiceFp4(12), TwiceFp4(13), TwiceFp4(14), TwiceFp4(15)};
  const hn::Repartition<int8_t, DU> d8;
  const auto low = hn::And(codes, hn::Set(du, 0x0f0f0f0fu));
  return hn::BitCast(du, hn::TableLookupBytes(hn::LoadDup128(d8, kTwice), hn::BitCast(d8, low)));
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace outrider
HWY_AFTER_NAMESPACE();

#endif  // toggle of the include guard
