// 8-bit floats E4M3 (Open Compute Project, "OCP 8-bit Floating Point Specification", 2023): a sign,
// four bits of exponent with a bias of 7, three of mantissa; no infinities, two NaNs. One source
// for host and device, so that both keep the same codes of the same values.
#pragma once

#include <cstdint>
#include <cstring>

#include "common/math/host_device.h"

namespace outrider {

OUTRIDER_HD inline float Fp8ToFloat(uint8_t code) {
  const uint32_t magnitude = code & 0x7fu;
  // Subnormals are multiples of 2^-9.
  float value = static_cast<float>(magnitude) * 0x1p-9f;
  if (magnitude >= 8) {
    const uint32_t bits =
        magnitude == 0x7f ? 0x7fc00000u : (magnitude << 20) + (120u << 23);  // NaN, or a new bias
    std::memcpy(&value, &bits, sizeof value);
  }
  return (code & 0x80) != 0 ? -value : value;
}

// The nearest code, of two that are equally near the even one. Magnitudes beyond 448, the largest,
// become that; NaN stays NaN.
OUTRIDER_HD inline uint8_t FloatToFp8(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint8_t>(sign | 0x7fu);  // NaN
  constexpr uint32_t kLargest = 0x43e00000u;                               // 448
  if (magnitude > kLargest) magnitude = kLargest;
  if (magnitude < 0x3c800000u) {  // 2^-6, from which on codes are normal
    // The last bit of a float from 2^14 on is worth 2^-9: the sum is rounded to that.
    float sum;
    std::memcpy(&sum, &magnitude, sizeof sum);
    sum += 0x1p14f;
    std::memcpy(&magnitude, &sum, sizeof magnitude);
    return static_cast<uint8_t>(sign | (magnitude & 0xfu));
  }
  const uint32_t rounded = magnitude + 0x7ffffu + (magnitude >> 20 & 1u);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

}  // namespace outrider
