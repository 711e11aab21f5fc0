// Rounding to the cache's element type, inline for loops; equal to FloatToBf16 on finite values.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace outrider {

// T is float or uint16_t (bf16 bits, round to nearest even).
template <class T>
inline T Narrow(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

}  // namespace outrider
